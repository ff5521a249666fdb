package relockgocron_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/relock-go/relock"
	relockgocron "github.com/relock-go/relock/adapters/gocron"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
)

var _ gocron.Elector = (*relockgocron.Elector)(nil)

const lease = 10 * time.Second

// electors returns two in a bubble, 1 ms away from Redis, the first of which leads. f ends before
// they do.
func electors(t *testing.T,
	f func(t *testing.T, r *relocktest.Redis, one, two *relock.Session, a, b *relockgocron.Elector)) {
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		var sessions []*relock.Session
		var all []*relockgocron.Elector
		for range 2 {
			s := r.Session(relock.WithLease(lease))
			r.Delay(s, time.Millisecond)
			e := relockgocron.NewElector(s, "leader")
			defer func() { require.NoError(t, e.Close(t.Context())) }()
			sessions, all = append(sessions, s), append(all, e)
			time.Sleep(time.Second)
		}
		require.NoError(t, all[0].IsLeader(t.Context()))
		require.ErrorIs(t, all[1].IsLeader(t.Context()), relock.ErrNotHeld)
		f(t, r, sessions[0], sessions[1], all[0], all[1])
	})
}

// leads waits until e leads, and returns for how long.
func leads(t *testing.T, e *relockgocron.Elector) time.Duration {
	start := time.Now()
	for e.IsLeader(t.Context()) != nil {
		require.Less(t, time.Since(start), 2*lease)
		time.Sleep(100 * time.Microsecond)
	}
	return time.Since(start)
}

func TestAnotherLeadsAtOnceAfterClose(t *testing.T) {
	electors(t, func(t *testing.T, _ *relocktest.Redis, _, _ *relock.Session, a, b *relockgocron.Elector) {
		lead, cancel := a.Context(t.Context())
		defer cancel()
		require.Positive(t, relock.Token(lead))
		closed := make(chan error, 1)
		go func() { closed <- a.Close(t.Context()) }()
		took := leads(t, b)
		t.Logf("another leads %v after Close", took)
		require.LessOrEqual(t, took, 5*time.Millisecond)
		require.NoError(t, <-closed)
		require.Error(t, lead.Err())
		require.ErrorIs(t, a.IsLeader(t.Context()), relock.ErrNotHeld)
		require.NoError(t, a.Close(t.Context()))
	})
}

// A process that Redis does not hear of any more, as if it had crashed, knows by its own clock that
// it does not lead, before the next one does.
func TestLeaderThatIsCutOffLeadsNoMoreAndTheNextDoesWithinALease(t *testing.T) {
	electors(t, func(t *testing.T, r *relocktest.Redis, one, _ *relock.Session, a, b *relockgocron.Elector) {
		job, cancel := a.Context(t.Context())
		defer cancel()
		until, ok := relock.HoldOf(job).Deadline()
		require.True(t, ok)
		defer r.Partition(one)()
		cut := time.Now()
		for time.Now().Before(until) {
			if left := time.Until(until); left > 10*time.Millisecond { // it may end a little early
				require.NoError(t, a.IsLeader(t.Context()), "%v before its deadline", left)
			}
			require.Error(t, b.IsLeader(t.Context()))
			time.Sleep(time.Millisecond)
			if next, ok := relock.HoldOf(job).Deadline(); ok {
				until = next // of a renewal that was under way
			}
		}
		require.ErrorIs(t, a.IsLeader(t.Context()), relock.ErrExpired)
		<-job.Done()
		require.ErrorIs(t, context.Cause(job), relock.ErrLost)
		leads(t, b)
		require.LessOrEqual(t, time.Since(cut), lease+100*time.Millisecond)
		require.Error(t, a.IsLeader(t.Context()))
	})
}

// A host that was suspended knows at once, before any timer has told.
func TestElectorThatWakesUpDoesNotLead(t *testing.T) {
	electors(t, func(t *testing.T, r *relocktest.Redis, one, _ *relock.Session, a, b *relockgocron.Elector) {
		heal := r.Partition(one)
		peek.Session(one).Clock.Skip(lease)
		require.ErrorIs(t, a.IsLeader(t.Context()), relock.ErrExpired)
		heal()
		leads(t, b)
	})
}

func TestElectorLeadsAgainAfterALoss(t *testing.T) {
	electors(t, func(t *testing.T, r *relocktest.Redis, _, two *relock.Session, a, b *relockgocron.Elector) {
		require.NoError(t, b.Close(t.Context()))
		before, cancel := a.Context(t.Context())
		defer cancel()
		token := relock.Token(before)
		r.Lose("leader")
		<-before.Done()
		require.ErrorIs(t, context.Cause(before), relock.ErrLost)
		leads(t, a)
		after, cancel := a.Context(t.Context())
		require.Greater(t, relock.Token(after), token)
		cancel()
		require.Error(t, after.Err())
		require.NoError(t, two.Close(t.Context()))
	})
}

func TestElectorSaysWhyItDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		s := r.Session()
		e, bad := relockgocron.NewElector(s, "leader"), relockgocron.NewElector(s, "leader{")
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(t, e.IsLeader(t.Context()))
		require.ErrorIs(t, bad.IsLeader(t.Context()), relock.ErrName)
		require.NoError(t, s.Close(t.Context()))
		synctest.Wait()
		require.ErrorIs(t, e.IsLeader(t.Context()), relock.ErrClosed)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = e.Close(ended)
		require.NoError(t, e.Close(t.Context()))
		require.NoError(t, bad.Close(t.Context()))
	})
}

// elected is a process whose scheduler runs a job as often as it can while it leads. It prints the
// token of each run.
func elected(args []string) {
	session, _ := kit.ChildSession(args[0], relock.WithLease(time.Second))
	e := relockgocron.NewElector(session, "leader")
	clock := clockwork.NewRealClock()
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(e))
	kit.ChildCheck(err)
	kit.ChildCheck(every(s, clock, 50*time.Millisecond, "job", func(ctx context.Context) {
		ctx, cancel := e.Context(ctx)
		defer cancel()
		if token := relock.Token(ctx); ctx.Err() == nil {
			fmt.Println("ran", token)
		}
	}))
	fmt.Println("ready")
	select {}
}

// Three processes; the leader is killed, and then the next one frozen, which leads no more when it
// goes on.
func TestOneProcessRunsTheJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	procs := map[*redistest.Proc]*redistest.Buffer{}
	for range 3 {
		p := redistest.Child(t, "elected", server.Addr())
		out := new(redistest.Buffer)
		p.Copy(out)
		procs[p] = out
	}
	last := int64(0)
	next := func() (leader *redistest.Proc) {
		redistest.Eventually(t, kit.Soon, "a leader", func() bool {
			for p, out := range procs {
				if token := lastToken(out); token > last {
					leader, last = p, token
				}
			}
			return leader != nil
		})
		return leader
	}
	next().Kill()
	frozen := next()
	require.NoError(t, frozen.Freeze())
	third := next()
	before := procs[frozen].String()
	require.NoError(t, frozen.Thaw())
	third.Kill()
	require.Same(t, frozen, next())
	after := procs[frozen].String()[len(before):]
	ran := lines(before)
	// It may have been frozen between a look at the clock and what it prints.
	require.LessOrEqual(t, strings.Count(after, ran[len(ran)-2]), 1, "it went on as the leader it had been")
}

func lastToken(out *redistest.Buffer) (token int64) {
	var n int64
	for _, line := range lines(out.String()) {
		if _, err := fmt.Sscanf(line, "ran %d", &n); err == nil {
			token = max(token, n)
		}
	}
	return token
}
