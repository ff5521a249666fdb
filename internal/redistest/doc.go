// Package redistest is the test kit of relock: private Redis servers in any
// topology, a proxy that damages connections on purpose, and helper processes.
//
// Everything runs on 127.0.0.1 and belongs to the process that started it:
//
//   - [Start] runs one redis-server, [StartReplicas] a primary with replicas,
//     [StartSentinel] a set watched by three sentinels, [StartCluster] a
//     cluster. Servers can be frozen, killed and restarted, and queried over
//     a connection of their own that disturbs no client.
//   - [NewProxy] stands between a client and a server and delays, stalls,
//     drops or cuts their traffic.
//   - [Child] runs a part of a test in a process of its own, which can be
//     frozen and killed like a user's process.
//   - [Mini] is an in-memory Redis for tests that need no faults.
//   - [Eventually] waits for a state.
//
// [Launch] and [OpenProxy] serve programs that are not tests.
//
// # Failures
//
// A method that can fail returns an error. When the value belongs to a test, the
// method also fails that test, so that a fault that was never injected cannot go
// unnoticed; a test may ignore the result. [Server.Do] is the exception: its error
// is only returned, since a test may want it. Methods that return only a figure,
// like [Server.CPU], fail the test and return zero, or panic without a test.
//
// # Environment
//
// The servers are Redis 6.2 or later, or Valkey; [Needs] says what some of them
// lack. RELOCK_REDIS_SERVER names the binary, which must exist and must not run the
// server as a child process; the default is redis-server in PATH. Without a binary
// tests are skipped, or fail if RELOCK_REQUIRE_REDIS is set.
//
// # Goroutines
//
// The cleanups of the test that started something end its goroutines and processes.
//
// # When the test process dies
//
// On Linux the kernel kills every server and helper process when the process that
// started it dies. Elsewhere helper processes notice the end of their standard
// input, and servers survive a parent killed with SIGKILL.
package redistest
