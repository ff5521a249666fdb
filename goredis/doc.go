// Package goredis makes the Redis client that relock needs from the options of go-redis, for
// services that use go-redis for everything else.
//
// relock works with [rueidis]. [NewClient] connects one to the server, the sentinels or the
// cluster to which [redis.NewUniversalClient] connects with the same options, and [FromOptions]
// to the server of [redis.NewClient]. Both clients may live side by side.
//
// The README lists every option: which are carried over, which are refused, and which mean
// nothing to locks.
//
// Hooks of go-redis are not options but belong to its client (AddHook), and so does what
// redisotel and other instrumentation adds to it. They see nothing of what relock sends, and
// relock does not wait for them. Package relockotel reports what locks do. To see each command,
// wrap the client that these functions return in a rueidis.Client of your own, and give that to
// relock.NewSession.
package goredis
