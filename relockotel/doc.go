// Package relockotel reports what a [relock.Session] does as OpenTelemetry metrics and spans.
//
//	observer, err := relockotel.NewObserver()
//	...
//	session, err := relock.NewSession(ctx, client, relock.WithObserver(observer))
//
// Metrics, in seconds where they are durations:
//
//	relock.wait.duration      histogram        {kind, outcome}  how long Lock and TryLock took
//	relock.hold.duration      histogram        {kind}           how long locks were held
//	relock.acquisitions       counter          {kind, outcome}  held, missed (by TryLock), canceled, error
//	relock.losses             counter          {kind, cause}    expired, ended, max_hold, gone, forced, closed, other
//	relock.holds              up-down counter  {kind}           locks held now
//	relock.waiters            up-down counter  {kind}           calls of Lock that wait now
//	relock.renewal.duration   histogram                         round trips of renewals
//	relock.renewal.failures   counter                           rounds of renewals with an error
//
// kind is mutex, fair, read, write, group or redlock. A Group or Redlock reports as itself; its members
// report nothing. Counters start at 0 when a kind of lock is first used. Names are no attribute, so that
// the series stay few however many locks there are; [WithName] adds classes of names, which the alerts need.
//
// The scope of metrics and spans has the version of this module.
//
// The span relock.lock is a child of the caller's, from the call of Lock or TryLock to its end. It has
// lock.name, lock.kind, lock.contended, lock.handoff, lock.outcome and, if there is one, lock.token. It is an
// error if the call returns one, with error.type: closed, lost, not_lock, bad_name, bad_option, deadlock, upgrade, taken,
// deadline_exceeded, canceled, or _OTHER where Redis has refused or not answered.
//
// An observer is safe for concurrent use, has no goroutine, and need not be closed. The directory
// grafana has a dashboard and alerts, and example a program that serves metrics to Prometheus.
package relockotel
