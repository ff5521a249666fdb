package transport

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// byHand is rounds over a cluster of two nodes, "left" with the lower half of the slots
// and "right" with the upper. Each round waits until the test ends it.
type byHand struct {
	Rounds[string]
	atlas *SlotMap

	mu   sync.Mutex
	open map[string]chan struct{} // rounds under way, by what they do
}

func newByHand(t *testing.T) *byHand {
	b := &byHand{open: make(map[string]chan struct{})}
	b.atlas = NewSlotMap(nil, func() {})
	b.atlas.table.set(0, 8191, "left")
	b.atlas.table.set(8192, 16383, "right")
	b.Rounds = Rounds[string]{
		Conn: &Conn{Slots: b.atlas},
		Key:  func(key string) string { return key },
		Do:   b.round,
		Kick: make(chan struct{}, 1),
	}
	t.Cleanup(func() {
		b.mu.Lock()
		for _, done := range b.open {
			close(done)
		}
		b.mu.Unlock()
		b.Wait()
	})
	return b
}

func (b *byHand) round(keys []string) {
	done := make(chan struct{})
	slices.Sort(keys)
	b.mu.Lock()
	b.open[fmt.Sprint(keys)] = done
	b.mu.Unlock()
	<-done
}

// underWay waits until exactly these rounds are.
func (b *byHand) underWay(t *testing.T, rounds ...[]string) {
	t.Helper()
	redistest.Eventually(t, 10*time.Second, fmt.Sprintf("the rounds %v", rounds), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, keys := range rounds {
			if b.open[fmt.Sprint(keys)] == nil {
				return false
			}
		}
		return len(b.open) == len(rounds)
	})
}

// finish ends a round, and waits for the call of next that this asks for.
func (b *byHand) finish(t *testing.T, keys ...string) {
	t.Helper()
	b.mu.Lock()
	close(b.open[fmt.Sprint(keys)])
	delete(b.open, fmt.Sprint(keys))
	b.mu.Unlock()
	select {
	case <-b.Kick:
	case <-time.After(10 * time.Second):
		t.Fatal("the end of a round is not told")
	}
}

// keysOf returns keys of which a node has the slots.
func (b *byHand) keysOf(addr string, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprintf("%s-%03d", addr, i); b.atlas.Primary(Slot(key)) == addr {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestRoundsOfANodeWaitForNoOther(t *testing.T) {
	t.Parallel()
	b := newByHand(t)
	l, r := b.keysOf("left", 3), b.keysOf("right", 3)
	b.Next([]string{l[0], r[0]})
	b.underWay(t, l[:1], r[:1])
	for range 5 { // left hangs
		b.finish(t, r[0])
		b.Next([]string{r[0]})
		b.underWay(t, l[:1], r[:1])
	}
}

func TestWhatIsDueDuringARoundGoesTogetherInTheNext(t *testing.T) {
	t.Parallel()
	b := newByHand(t)
	l, r := b.keysOf("left", 3), b.keysOf("right", 1)
	b.Next(l[:1])
	b.Next(l[1:2])
	b.Next([]string{l[2], r[0]})
	b.underWay(t, l[:1], r)
	b.finish(t, r[0])
	b.Next(nil)
	b.underWay(t, l[:1])
	b.finish(t, l[0])
	b.Next(nil)
	b.underWay(t, l[1:])
	b.finish(t, l[1:]...)
	b.Next(nil)
	b.underWay(t)
}

// What waits for a node is not tied to it: another one may have its slot by now.
func TestWhatWaitsGoesToTheNodeThatHasItsSlotNow(t *testing.T) {
	t.Parallel()
	b := newByHand(t)
	l := b.keysOf("left", 3)
	b.Next(l[:1])
	b.Next(l[1:])
	b.underWay(t, l[:1])
	b.atlas.Moved(Slot(l[1]), "right") // a slot moves
	b.Next(nil)
	b.underWay(t, l[:1], l[1:2])
	b.atlas.table.set(0, 16383, "new") // a replica takes over
	b.Next(nil)
	b.underWay(t, l[:1], l[1:2], l[2:])
}

// As long as nobody knows which node has a slot, there is one round for all.
func TestRoundsGoOnWithoutKnowingTheCluster(t *testing.T) {
	t.Parallel()
	b := newByHand(t)
	l, r := b.keysOf("left", 2), b.keysOf("right", 1)
	b.atlas.table = readSlots(nil, "")
	b.Next([]string{l[0], r[0]})
	b.Next(l[1:])
	b.underWay(t, []string{l[0], r[0]})
	b.finish(t, l[0], r[0])
	b.Next(nil)
	b.underWay(t, l[1:])
}

func TestGoroutinesOfRoundsDoNotGrowWithWhatIsDue(t *testing.T) { // counts those of the process
	b := newByHand(t)
	l, r := b.keysOf("left", 1), b.keysOf("right", 1)
	b.Next([]string{l[0], r[0]})
	b.underWay(t, l, r)
	before := runtime.NumGoroutine()
	for range 1000 {
		b.Next([]string{l[0], r[0]})
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
	b.finish(t, l[0])
	b.finish(t, r[0])
	require.Len(t, b.Wait(), 2000, "what waits is handed back at the end")
}

func TestOutsideAClusterARoundNeedsNoGoroutine(t *testing.T) { // AllocsPerRun wants to be alone
	var done []int
	r := Rounds[int]{Conn: new(Conn), Do: func(items []int) { done = append(done[:0], items...) }}
	r.Next(nil)
	require.Empty(t, done)
	some := []int{1, 2}
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Next(some) }))
	require.Equal(t, some, done)
}
