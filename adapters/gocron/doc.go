// Package relockgocron lets several schedulers of [gocron] run each job once, by locks of [relock].
//
// There are two ways, as in gocron. With a [gocron.Locker] from [NewLocker] every scheduler tries each tick of
// a job, and one of them runs it. With an [Elector] one scheduler is the leader and runs all jobs until it
// stops or dies.
//
// gocron gives a job one context for all its runs. A job that must stop when its lock is lost asks for the
// context of this run, with [Context] under a Locker, and with [Elector.Context] under an Elector.
package relockgocron
