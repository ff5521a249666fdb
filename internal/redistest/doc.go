// Package redistest is the test kit of relock: private Redis servers in any
// topology, a proxy that damages connections on purpose, and helper processes.
//
// Everything runs on 127.0.0.1 and belongs to the process that started it:
//
//   - [Start] runs one redis-server, [StartReplicas] a primary with replicas,
//     [StartSentinel] a set watched by three sentinels, [StartCluster] a
//     cluster. Servers can be frozen, killed and restarted, and questioned over
//     a connection of their own that disturbs no client.
//   - [NewProxy] stands between a client and a server and delays, stalls,
//     swallows or cuts what they say to each other.
//   - [Child] runs a part of a test in a process of its own, which can be
//     frozen and killed as a user's process can.
//   - [Mini] is an in-memory Redis for tests that need no faults.
//   - [Eventually] waits for a state.
//
// [Launch] and [OpenProxy] serve programs that are not tests.
//
// # Failures
//
// A method that can fail returns an error. When the value belongs to a test,
// the method marks that test as failed too, so that a fault that was never
// injected cannot pass unseen; a test may ignore the result. [Server.Do] is the
// exception: its error is only returned, since a test may want it. Methods that
// return a figure alone, like [Server.CPU], return zero when they have failed the
// test, and panic when there is no test to fail.
//
// # Environment
//
// The servers need redis-server 7.0 or newer. RELOCK_REDIS_SERVER names the
// binary, which must be there and must not run the server as a child of its own;
// by default redis-server is looked up in PATH. Tests are skipped when it is not
// there, unless RELOCK_REQUIRE_REDIS is set to anything: then they fail.
//
// # When the test process dies
//
// On Linux the kernel kills every server and helper process together with the
// process that started it. Elsewhere helper processes notice that their standard
// input ended, and servers survive a parent that was killed with SIGKILL.
package redistest
