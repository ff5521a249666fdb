package transport

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// byHand is rounds over a cluster of two nodes, "left" with the lower half of the slots
// and "right" with the upper. "l0" to "l2" are due on the left, and "r0" on the right. Each round waits until the
// test ends it.
type byHand struct {
	Rounds[string]
	t     *testing.T
	atlas *SlotMap
	keys  map[string]string // of the items
	mu    sync.Mutex
	open  map[string]chan struct{} // rounds under way, by what they do
}

func byHands(t *testing.T, f func(b *byHand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &byHand{t: t, keys: make(map[string]string), open: make(map[string]chan struct{})}
		b.atlas = NewSlotMap(nil, func() {})
		b.atlas.table.set(0, 8191, "left")
		b.atlas.table.set(8192, 16383, "right")
		for i, n := 0, 0; n < 3; i++ {
			key := fmt.Sprint(i)
			if b.atlas.Primary(Slot(key)) == "right" {
				b.keys["r0"] = key
			} else {
				b.keys[fmt.Sprint("l", n)] = key
				n++
			}
		}
		b.Rounds = Rounds[string]{
			Conn: &Conn{Slots: b.atlas},
			Key:  func(item string) string { return b.keys[item] },
			Do: func(items []string) {
				done := make(chan struct{})
				slices.Sort(items)
				b.mu.Lock()
				b.open[strings.Join(items, " ")] = done
				b.mu.Unlock()
				<-done
			},
			Kick: make(chan struct{}, 1),
		}
		f(b)
		for _, done := range b.open {
			close(done)
		}
		b.Wait()
	})
}

// next has items due, and checks which rounds are under way then.
func (b *byHand) next(due string, want ...string) {
	b.t.Helper()
	b.Next(strings.Fields(due))
	synctest.Wait()
	require.ElementsMatch(b.t, want, slices.Collect(maps.Keys(b.open)))
}

// finish ends a round, which asks for a call of Next.
func (b *byHand) finish(items string) {
	b.t.Helper()
	close(b.open[items])
	delete(b.open, items)
	synctest.Wait()
	require.Len(b.t, b.Kick, 1, "the end of a round is not told")
	<-b.Kick
}

func TestRoundsOfANodeWaitForNoOther(t *testing.T) {
	byHands(t, func(b *byHand) {
		b.next("l0 r0", "l0", "r0")
		for range 5 { // left hangs
			b.finish("r0")
			b.next("r0", "l0", "r0")
		}
	})
}

func TestWhatIsDueDuringARoundGoesTogetherInTheNext(t *testing.T) {
	byHands(t, func(b *byHand) {
		b.next("l0", "l0")
		b.next("l1", "l0")
		b.next("l2 r0", "l0", "r0")
		b.finish("r0")
		b.next("", "l0")
		b.finish("l0")
		b.next("", "l1 l2")
		b.finish("l1 l2")
		b.next("")
	})
}

// What waits for a node is not tied to it: another one may have its slot by now.
func TestWhatWaitsGoesToTheNodeThatHasItsSlotNow(t *testing.T) {
	byHands(t, func(b *byHand) {
		b.next("l0", "l0")
		b.next("l1 l2", "l0")
		b.atlas.Moved(Slot(b.keys["l1"]), "right") // a slot moves
		b.next("", "l0", "l1")
		b.atlas.table.set(0, 16383, "new") // a replica takes over
		b.next("", "l0", "l1", "l2")
	})
}

// As long as nobody knows which node has a slot, there is one round for all.
func TestRoundsGoOnWithoutKnowingTheCluster(t *testing.T) {
	byHands(t, func(b *byHand) {
		b.atlas.table = readSlots(nil, "")
		b.next("l0 r0", "l0 r0")
		b.next("l1", "l0 r0")
		b.finish("l0 r0")
		b.next("", "l1")
	})
}

func TestGoroutinesOfRoundsDoNotGrowWithWhatIsDue(t *testing.T) { // counts those of the process
	byHands(t, func(b *byHand) {
		b.next("l0 r0", "l0", "r0")
		before := runtime.NumGoroutine()
		for range 1000 {
			b.Next([]string{"l0", "r0"})
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), before)
		b.finish("l0")
		b.finish("r0")
		require.Len(t, b.Wait(), 2000, "what waits is handed back at the end")
	})
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
