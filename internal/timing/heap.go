package timing

// A Heap is a timer heap: its first entry is due first. It is used through container/heap.
type Heap[T Entry[T]] []T

// Entry is an element of a Heap that knows its index there.
type Entry[T any] interface {
	Before(T) bool  // due before the other one
	SetIndex(i int) // -1: removed
}

// Len implements heap.Interface.
func (h Heap[T]) Len() int { return len(h) }

// Less implements heap.Interface.
func (h Heap[T]) Less(i, j int) bool { return h[i].Before(h[j]) }

// Swap implements heap.Interface.
func (h Heap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].SetIndex(i)
	h[j].SetIndex(j)
}

// Push implements heap.Interface.
func (h *Heap[T]) Push(x any) {
	e := x.(T)
	e.SetIndex(len(*h))
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *Heap[T]) Pop() any {
	var none T
	old := *h
	n := len(old) - 1
	e := old[n]
	old[n] = none
	*h = old[:n]
	e.SetIndex(-1)
	return e
}
