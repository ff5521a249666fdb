package redistest

import "go.uber.org/goleak"

// Leaks returns options for goleak that pass over what rueidis leaves behind a
// closed cluster client: goroutines that sleep, for five seconds before they close
// a connection that was replaced (after a MOVED to the node that was asked, or when
// a node left), and for up to a second before they look at the topology again.
func Leaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
	}
}
