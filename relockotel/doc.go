// Package relockotel reports what a [relock.Session] does as OpenTelemetry metrics and spans.
//
//	observer, err := relockotel.NewObserver()
//	...
//	session, err := relock.NewSession(ctx, client, relock.WithObserver(observer))
//
// Metrics, in seconds where they are durations:
//
//	relock.wait.duration      histogram        {kind, outcome}  how long calls took until they had the lock or failed
//	relock.hold.duration      histogram        {kind}           how long locks were held
//	relock.acquisitions       counter          {kind, outcome}  held, missed (by one attempt), canceled, unanswered, error
//	relock.losses             counter          {kind, cause}    expired, ended, max_hold, gone, forced, closed, other
//	relock.holds              up-down counter  {kind}           locks held now
//	relock.waiters            up-down counter  {kind}           calls that wait for a lock now
//	relock.kept               up-down counter                   idle locks that are kept (relock.WithKeep)
//	relock.renewal.duration   histogram                         round trips of renewals
//	relock.renewal.failures   counter                           rounds of renewals with an error
//
// kind is mutex, fair, read, write, group, redlock or semaphore. A Group or Redlock reports as
// itself; its members report nothing. The outcome is canceled if the caller gave up while another
// had the lock, and unanswered if the call ended while Redis did not answer
// ([relock.ErrUnavailable]). Counters start at 0 when a kind of lock is first used. Names are not
// an attribute, so that the series stay few however many locks there are; [WithName] adds classes
// of names, which the alerts need.
//
// The scope of metrics and spans has the version of this module.
//
// The span relock.lock is a child of the caller's, from the call until it has the lock or has failed. It has
// lock.name, lock.kind, lock.contended, lock.local, lock.kept, lock.outcome and, if there is one, lock.token. It is
// an error if the call returns one, with error.type: closed, unavailable, replicas, lost, not_lock, bad_name,
// bad_option, deadlock, upgrade, taken, deadline_exceeded, canceled, or _OTHER where Redis has refused.
//
// An observer is safe for concurrent use, has no goroutine, and need not be closed. The directory
// grafana has a dashboard and alerts, and example a program that serves metrics to Prometheus.
package relockotel
