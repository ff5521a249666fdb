// Package local decides which goroutine of this process has a lock, and which one asks Redis for it.
//
// Its files, from the ground up: hold.go, one acquisition, and whether it lives; owner.go, who
// enters again what it holds; lease.go, what the process has in Redis, and who may take it over;
// table.go, the calls and what they are told to do; writer.go and readers.go, the two sides of one
// lock.
//
// A [Table] is pure: it knows no Redis, calls nobody back and starts no goroutine. Its functions
// take the time and return a [Step], which says what the caller must do next: enter, wait, ask
// Redis, release. The caller acts on it with no mutex locked, and then tells the table what came of
// it. So a test visits every state that a few calls can reach (explore_test.go).
//
// Per name one call of each side, the delegate, asks Redis, and only while the process does not have
// the lock; the others wait in memory, first in, first out. The exclusive side is in one of these
// states:
//
//	free ──Lock──► asking ──Granted──► held ──Unlock──► held by the next call, kept, or releasing
//	  ▲               │                 │ ▲                                   │          │
//	  │               └─Left            │ └──────────── Lock ─────────────────┤          │
//	  ├─────────── Lost ────────────────┘                            Recalled ▼          │
//	  └─────────────────────── Released ◄──────────────────────────────── releasing ◄────┘
//
// Beside it the readers of the process share one lease. A new one joins without asking Redis for
// the hand-off window after Redis last said that no writer waits, unless a writer of this process
// waits.
//
// # Invariants
//
//   - A writer of this process holds the lock alone: no other writer, and no reader of the table.
//   - At most one call of each side asks Redis. While calls of a side wait, the process has the
//     lock or is releasing it, or one of its calls asks.
//   - Calls of a side are let in, or told to ask, in the order in which they came.
//   - Every lease that was granted is in use, kept, or was returned exactly once in a step that says
//     to release it, or by Lost.
//   - A lease is taken over only while at least half of its term is valid, with the next token.
//   - A call that is cancelled and was let in at the same moment gets its hold from Left, and gives
//     it back.
//   - A name without calls and leases is forgotten.
//
// A Mutex, an RWMutex and a Redlock use a table. Calls that ask Redis for themselves, such as those
// of a FairMutex, do not.
package local
