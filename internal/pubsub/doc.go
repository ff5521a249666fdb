// Package pubsub shares subscription connections among all waiters of a session.
//
// A [Broker] subscribes channels on connections of its own: one for the whole deployment,
// or in a cluster one for each node where a channel needs it. A [Listener] waits for
// messages of one channel. The package knows nothing of locks or of what messages mean.
//
// Its files, from the ground up: listener.go, connection.go, subscribe.go, broker.go.
//
// # Invariants
//
//   - No gap goes unnoticed. Whoever waits for a message subscribes first, then looks at the
//     lock, then waits. Each confirmation of a subscription after a gap, the first one too,
//     signals its listeners, so that they look again.
//   - Signals go to channels with one place and never block. Only [Config.Handler] and the
//     functions of listeners run on a connection's reader; they must not block.
//   - A connection leads to a primary: Redis delivers messages on replicas too, but does not
//     count the subscribers there when a message is published.
//   - No Redis I/O happens with Broker.mu locked.
//
// # Goroutines
//
// The broker starts all goroutines through [Config.Tasks], whose owner stops them by ending
// [Config.Ctx] and waits for them: one for each connection, until that is closed.
package pubsub
