package relock

import "container/heap"

var _ heap.Interface = (*agenda[*lease])(nil)

// An agenda is a heap of what is to be looked at, by the time at which: its first
// element is due first. It is used by way of container/heap.
type agenda[T entry[T]] []T

// entry is an element of an agenda, which knows its place there.
type entry[T any] interface {
	dueBefore(T) bool
	placed(i int) // -1: not there any more
}

func (a agenda[T]) Len() int           { return len(a) }
func (a agenda[T]) Less(i, j int) bool { return a[i].dueBefore(a[j]) }
func (a agenda[T]) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].placed(i)
	a[j].placed(j)
}

func (a *agenda[T]) Push(x any) {
	e := x.(T)
	e.placed(len(*a))
	*a = append(*a, e)
}

func (a *agenda[T]) Pop() any {
	var none T
	old := *a
	n := len(old) - 1
	e := old[n]
	old[n] = none
	*a = old[:n]
	e.placed(-1)
	return e
}
