package locks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// span returns the numbers from 0 below n for which f is true.
func span(n int, f func(i int) bool) (is []int) {
	for i := range n {
		if f(i) {
			is = append(is, i)
		}
	}
	return is
}

func anyOf(int) bool { return true }

func notThird(i int) bool { return i%3 != 2 }

func everyThird(i int) bool { return i%3 == 2 }

// rounds returns how often to repeat a round: 100 times in a stress test.
func rounds(t testing.TB, short int) int {
	if kit.Stress(t, 0) > 0 {
		return 100
	}
	return short
}

const inLine = 50

func TestFairMutexIsAcquiredInFIFOOrder(t *testing.T) {
	t.Parallel()
	q := newLine(t, 4, 30*time.Second)
	for range 100 {
		kit.Lock(t, kit.Background, q.first)
		for n := range inLine {
			q.join(q.all[(n*7)%4], n)
		}
		kit.Unlock(t, kit.Background, q.first)
		require.Equal(t, span(inLine, anyOf), q.turns(inLine))
		q.done(span(inLine, anyOf)...)
		q.clear()
	}
}

func TestFairMutexWaitersThatGiveUpLeaveTheOrder(t *testing.T) {
	t.Parallel()
	q := newLine(t, 4, 30*time.Second)
	for range rounds(t, 10) {
		kit.Lock(t, kit.Background, q.first)
		for n := range inLine {
			q.join(q.all[(n*7)%4], n)
		}
		for _, n := range span(inLine, everyThird) {
			q.tell(n, "cancel")
		}
		for _, n := range span(inLine, everyThird) {
			q.said(n, "left")
		}
		q.until(len(span(inLine, notThird)))
		kit.Unlock(t, kit.Background, q.first)
		require.Equal(t, span(inLine, notThird), q.turns(len(span(inLine, notThird))))
		q.done(span(inLine, notThird)...)
		q.clear()
	}
}

// Their processes are dead when their turn comes: it costs nobody anything, and in the
// end they are not in the queue any more.
func TestFairMutexPassesOverTheDead(t *testing.T) {
	t.Parallel()
	q := newLine(t, 4, 30*time.Second)
	for range rounds(t, 3) {
		kit.Lock(t, kit.Background, q.first)
		before := sessions(q.server)
		doomed := []*redistest.Proc{q.process(), q.process()}
		for n := range inLine {
			p := q.all[(n*7)%4]
			if everyThird(n) {
				p = doomed[n%2]
			}
			q.join(p, n)
		}
		for _, p := range doomed {
			p.Kill()
		}
		redistest.Eventually(t, kit.Soon, "Redis to notice", func() bool {
			return sessions(q.server) == before
		})
		start := time.Now()
		kit.Unlock(t, kit.Background, q.first)
		require.Equal(t, span(inLine, notThird), q.turns(len(span(inLine, notThird))))
		require.Less(t, time.Since(start), kit.Quickly, "less than one claim")
		redistest.Eventually(t, kit.Soon, "the dead to lose their places", func() bool {
			kit.Lock(t, kit.Background, q.first)
			kit.Unlock(t, kit.Background, q.first)
			return q.waiters() == 0
		})
		q.done(span(inLine, notThird)...)
		q.clear()
	}
}

// sessions returns how many sessions listen to their channels of grants.
func sessions(server *redistest.Server) (n int) {
	for _, c := range server.Channels() {
		if strings.HasPrefix(c, "relock_session:") {
			n++
		}
	}
	return n
}
