// Package relocktest runs locks on a Redis in memory, to test code that uses relock. Locks can be
// held by somebody else and lost, and connections cut, broken and delayed.
//
// In a bubble of testing/synctest time is virtual: an hour of renewals passes in a second or less,
// and a loss comes at the same virtual nanosecond every time.
//
//	func TestJobStopsWhenTheLockIsLost(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			redis := relocktest.New(t)
//			session := redis.Session()
//			time.AfterFunc(10*time.Minute, func() { redis.Partition(session) })
//
//			start := time.Now()
//			err := work(t.Context(), session.Mutex("job")) // the code under test
//
//			if !errors.Is(err, relock.ErrLost) {
//				t.Errorf("the job ended with %v", err)
//			}
//			// The lease is 30 seconds, and was renewed when Redis went away.
//			if took := time.Since(start); took > 10*time.Minute+30*time.Second {
//				t.Errorf("the job ended after %v", took)
//			}
//		})
//	}
//
// The file example_test.go has this test, and others of a handler that gives up when somebody else
// has the lock, and of lost replies.
//
// Everything works without a bubble too, in real time. In a bubble, use the bubble's T, and make
// sessions with [Redis.Session]: a socket, and so a real server, stops virtual time for ever.
//
// # Processes
//
// Each [Redis.Session] is a process of its own, with its own client and connections, and locks of
// two sessions exclude each other as those of two processes do. Faults concern one session. Several
// calls of [New] make several servers, for a Redlock.
//
// # What it is not
//
// The Redis is miniredis, a single server. It has no replicas, so [relock.WithReplicas] finds
// none, no cluster, and no sharded pub/sub. Test on a real server what depends on those.
//
// A miniredis of your own does not let time pass: leases and minimum holds ([relock.WithMinHold])
// never end there unless the test drives its clock. The server of this package does that.
//
// Virtual time makes times exact, but not the order in which goroutines run that are ready at the
// same instant. Give a session a [Redis.Delay] of its own where the order matters.
package relocktest
