// Package goredis makes the Redis client that relock needs from the options of go-redis, for
// services that use go-redis for everything else.
//
// relock works with [rueidis]; [NewClient] connects one to the server, the sentinels or the
// cluster to which [redis.NewUniversalClient] connects with the same options. Both clients
// may live side by side.
//
// The README lists every option: which are carried over, which are refused, and which mean
// nothing to locks.
package goredis
