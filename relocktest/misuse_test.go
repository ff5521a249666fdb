package relocktest_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// A tester records what a test is told.
type tester struct {
	testing.TB
	messages []string
}

func (f *tester) Logf(format string, args ...any) {
	f.messages = append(f.messages, fmt.Sprintf(format, args...))
}
func (f *tester) Fatalf(format string, args ...any) { f.Logf(format, args...); runtime.Goexit() }
func (f *tester) Fatal(args ...any)                 { f.Fatalf("%s", fmt.Sprint(args...)) }

func TestMisuseIsSaid(t *testing.T) {
	t.Parallel()
	for _, misuse := range []struct {
		want string
		do   func(r *relocktest.Redis, foreign *relock.Session)
	}{
		{`Hold("a"): the lock is taken`, func(r *relocktest.Redis, _ *relock.Session) { r.Hold("a"); r.Hold("a") }},
		{`Hold(""): relock: `, func(r *relocktest.Redis, _ *relock.Session) { r.Hold("") }},
		{`Lose("a"): nobody holds the lock`, func(r *relocktest.Redis, _ *relock.Session) { r.Lose("a") }},
		{`Delete("a"): nobody holds the lock`, func(r *relocktest.Redis, _ *relock.Session) { r.Delete("a") }},
		{`not one that Session of this Redis returned`, func(r *relocktest.Redis, s *relock.Session) { r.ClientOf(s) }},
		{`HoldPermits is for Semaphores`, func(r *relocktest.Redis, _ *relock.Session) {
			_ = r.Session().Semaphore("a", 1).Lock(background)
			r.Hold("a")
		}},
		{`HoldPermits("a", 2): the lock is taken`, func(r *relocktest.Redis, _ *relock.Session) {
			_ = r.Session().Semaphore("a", 2).Lock(background)
			r.HoldPermits("a", 2)
		}},
		{`not one that Session of this Redis returned`, func(r *relocktest.Redis, s *relock.Session) { r.Partition(s) }},
		{`relock: NewSession: `, func(r *relocktest.Redis, _ *relock.Session) { r.Session(relock.WithTenure(-1)) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &tester{TB: t}
			r, foreign := relocktest.New(f), relocktest.New(t).Session()
			go misuse.do(r, foreign) // Fatal ends it
			time.Sleep(time.Minute)
			synctest.Wait() // what it has written is to be seen
			require.Len(t, f.messages, 1)
			require.Contains(t, f.messages[0], "relocktest: ")
			require.Contains(t, f.messages[0], misuse.want)
		})
	}
}

// A test may end with its session cut off, its locks held, and calls waiting.
func TestATestMayEndInAnyState(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		start := time.Now()
		t.Cleanup(func() { require.Less(t, time.Since(start), time.Minute) })
		w.hold()
		w.each(func(r *relocktest.Redis, s *relock.Session) {
			r.DropReplies(s, 100)
			r.Delay(s, time.Hour)
			r.Partition(s)
		})
		waiting := w.redis[0].Session().Mutex(w.names[0])
		go func() { _ = waiting.Lock(background) }()
		time.Sleep(time.Second)
	})
}
