package locks_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// saturate locks and unlocks in several goroutines until stop is closed, and returns
// how often.
func saturate(s *relock.Session, goroutines int, stop <-chan struct{}) (total int, err error) {
	counts := make([]int, goroutines)
	err = kit.Together(goroutines, func(i int) error {
		m := s.Mutex("lock")
		for !kit.IsClosed(stop) {
			if err := m.Lock(kit.Background); err != nil {
				return err
			}
			counts[i]++
			if err := m.Unlock(kit.Background); err != nil {
				return err
			}
		}
		return nil
	})
	for _, n := range counts {
		total += n
	}
	return total, err
}

// A session whose goroutines want the lock all the time keeps it for a tenure and no
// longer: another one's single goroutine gets in again and again.
func TestASaturatingSessionStarvesNobody(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		busy, s := kit.NewSession(t, at), kit.NewSession(t, at)
		stop := make(chan struct{})
		done := kit.Async(func() error { _, err := saturate(busy, 8, stop); return err })
		m := s.Mutex("lock")
		for range 20 {
			kit.Lock(t, kit.Background, m)
			kit.Unlock(t, kit.Background, m)
		}
		close(stop)
		require.NoError(t, kit.Receive(t, done, "the busy session to end"))
	})
}

func TestSaturatingSessionsShareTheLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sessions := []*relock.Session{kit.NewSession(t, server), kit.NewSession(t, server)}
	stop, counts := make(chan struct{}), make([]int, len(sessions))
	timer := time.AfterFunc(kit.Stress(t, time.Second), func() { close(stop) })
	defer timer.Stop()
	require.NoError(t, kit.Together(len(sessions), func(i int) (err error) {
		counts[i], err = saturate(sessions[i], 4, stop)
		return err
	}))
	t.Log(counts)
	require.LessOrEqual(t, slices.Max(counts), 3*slices.Min(counts), counts)
}

func init() {
	kit.Roles["saturate"] = func(args []string) { // address, goroutines, duration
		s, _ := kit.ChildSession(args[0])
		goroutines, err := strconv.Atoi(args[1])
		kit.ChildCheck(err)
		span, err := time.ParseDuration(args[2])
		kit.ChildCheck(err)
		var line string
		fmt.Println("ready")
		fmt.Fscanln(os.Stdin, &line)
		stop := make(chan struct{})
		time.AfterFunc(span, func() { close(stop) })
		n, err := saturate(s, goroutines, stop)
		kit.ChildCheck(err)
		kit.ChildCheck(s.Close(kit.Background))
		fmt.Println("count", n)
	}
}

func TestSaturatingProcessesShareTheLock(t *testing.T) {
	server := redistest.Start(t)
	counts := make([]int, 4)
	children := make([]*redistest.Proc, len(counts))
	span := kit.Stress(t, 1500*time.Millisecond)
	for i := range children {
		children[i] = redistest.Child(t, "saturate", server.Addr(), "8", span.String())
		_, err := children[i].Expect("ready", kit.Soon)
		require.NoError(t, err)
	}
	for _, c := range children {
		require.NoError(t, c.Send("go"))
	}
	for i, c := range children {
		text, err := c.Expect("count ", span+kit.Soon)
		require.NoError(t, err)
		counts[i], err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	t.Log(counts, float64(slices.Max(counts))/float64(slices.Min(counts)))
	require.LessOrEqual(t, slices.Max(counts), 3*slices.Min(counts), counts)
}
