package relockotel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relockotel"
	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.uber.org/goleak"
)

var background = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMetricsOfHoldsAndWaits(t *testing.T) {
	onEach(t, func(t *testing.T, kind string, redis []*relocktest.Redis) {
		x, of := newTelemetry(t), "kind="+kind
		s, other := sessions(redis, relock.WithObserver(x.observer)), sessions(redis)
		rival := rivalOf(kind, other)
		now := func(holds, waiters int) {
			t.Helper()
			require.EqualValues(t, holds, x.series("relock.holds")[of])
			require.EqualValues(t, waiters, x.series("relock.waiters")[of])
		}
		l := lockOf(kind, s, "lock")
		require.NoError(t, l.Lock(background))
		now(1, 0)
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Unlock(background))
		now(0, 0)
		require.Equal(t, 3*time.Second, x.sum("relock.hold.duration", of))

		require.NoError(t, rival.Lock(background))
		ok, err := l.TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		now(0, 0)
		got := make(chan error)
		go func() { got <- l.Lock(background) }()
		time.Sleep(time.Second)
		now(0, 1)
		ctx, cancel := context.WithTimeout(background, time.Second)
		require.ErrorIs(t, lockOf(kind, s, "lock").Lock(ctx), context.DeadlineExceeded)
		cancel()
		now(0, 1)
		require.NoError(t, rival.Unlock(background))
		require.NoError(t, <-got)
		now(1, 0)
		require.NoError(t, l.Unlock(background))
		require.Error(t, lockOf(kind, s, "{").Lock(background))

		for outcome, n := range map[string]int{"held": 2, "missed": 1, "canceled": 1, "error": 1} {
			require.EqualValues(t, n, x.series("relock.acquisitions")[of+" outcome="+outcome], outcome)
			require.EqualValues(t, n, x.series("relock.wait.duration")[of+" outcome="+outcome], outcome)
		}
		require.EqualValues(t, 2, x.series("relock.hold.duration")[of])
		now(0, 0)
		require.Zero(t, x.series("relock.losses")[of])
		require.GreaterOrEqual(t, x.sum("relock.wait.duration", of+" outcome=held"), 2*time.Second)
		require.Equal(t, time.Second, x.sum("relock.wait.duration", of+" outcome=canceled"))
	})
}

func TestLossesByCause(t *testing.T) {
	onEach(t, func(t *testing.T, kind string, redis []*relocktest.Redis) {
		for cause, lose := range map[string]struct {
			opt relock.LockOption
			do  func(s []*relock.Session)
		}{
			"expired": {nil, func(s []*relock.Session) {
				for i, r := range redis {
					r.Partition(s[i])
				}
			}},
			"ended":    {relock.WithFixedLease(time.Second), func([]*relock.Session) {}},
			"max_hold": {relock.WithMaxHold(time.Second), func([]*relock.Session) {}},
			"forced": {nil, func([]*relock.Session) {
				for _, r := range redis {
					r.Lose("lock")
				}
			}},
			"gone": {nil, func([]*relock.Session) {
				for _, r := range redis {
					r.Client().Do(background, r.Client().B().Del().Key("lock").Build())
				}
			}},
			"closed": {nil, func(s []*relock.Session) {
				for _, s := range s {
					require.NoError(t, s.Close(background))
				}
			}},
		} {
			x := newTelemetry(t)
			s := sessions(redis, relock.WithObserver(x.observer))
			l := lockOf(kind, s, "lock", lose.opt)
			require.NoError(t, l.Lock(background))
			time.Sleep(500 * time.Millisecond)
			lose.do(s)
			<-l.Done()
			synctest.Wait()
			require.EqualValues(t, map[string]int64{cause: 1}, only(x.series("relock.losses"), kind), cause)
			require.EqualValues(t, 0, x.series("relock.holds")["kind="+kind], cause)
			require.EqualValues(t, 1, x.series("relock.hold.duration")["kind="+kind], cause)
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			time.Sleep(time.Minute) // nothing of it is left
		}
	})
}

// only returns the series of a kind by their cause, without those at 0.
func only(all map[string]int64, kind string) map[string]int64 {
	of := make(map[string]int64)
	for attributes, n := range all {
		if cause, ok := strings.CutSuffix(attributes, " kind="+kind); ok && n != 0 {
			of[strings.TrimPrefix(cause, "cause=")] = n
		}
	}
	return of
}

func TestRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, redis := newTelemetry(t), relocktest.New(t)
		s := redis.Session(relock.WithObserver(x.observer))
		require.NoError(t, s.Mutex("lock").Lock(background))
		time.Sleep(45 * time.Second)
		require.EqualValues(t, 4, x.series("relock.renewal.duration")[""])
		require.Equal(t, map[string]int64{"": 0}, x.series("relock.renewal.failures"))
		heal := redis.Partition(s)
		time.Sleep(20 * time.Second)
		require.Positive(t, x.series("relock.renewal.failures")[""])
		heal()
	})
}

func TestSpans(t *testing.T) {
	onEach(t, func(t *testing.T, kind string, redis []*relocktest.Redis) {
		x := newTelemetry(t)
		s, other := sessions(redis, relock.WithObserver(x.observer)), sessions(redis)
		ctx, parent := x.tracing.Tracer("test").Start(background, "request")
		rival := rivalOf(kind, other)
		require.NoError(t, rival.Lock(background))
		start := time.Now()
		time.AfterFunc(time.Second, func() { _ = rival.Unlock(background) })
		require.NoError(t, lockOf(kind, s, "lock").Lock(ctx))
		end := time.Now()
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		require.Error(t, lockOf(kind, s, "lock").Lock(canceled))
		spans := x.spans.Ended() // none of them is of a member
		parent.End()
		require.Len(t, spans, 2)
		span := spans[0]
		require.Equal(t, "relock.lock", span.Name())
		require.Equal(t, parent.SpanContext().SpanID(), span.Parent().SpanID())
		require.Equal(t, start, span.StartTime())
		require.Equal(t, end, span.EndTime())
		require.Equal(t, codes.Unset, span.Status().Code)
		text := words(attribute.NewSet(span.Attributes()...))
		for _, want := range []string{
			"lock.contended=true", "lock.handoff=false", "lock.kind=" + kind, "lock.outcome=held",
		} {
			require.Contains(t, text, want)
		}
		require.Regexp(t, `lock\.name=.*lock`, text)
		if kind == "mutex" || kind == "fair" || kind == "write" {
			require.Regexp(t, `lock\.token=[1-9]`, text)
		} else {
			require.NotContains(t, text, "lock.token")
		}
		require.Equal(t, codes.Error, spans[1].Status().Code)
		require.Contains(t, words(attribute.NewSet(spans[1].Attributes()...)), "lock.outcome=canceled")
	})
}

func TestNilProvidersAreRefused(t *testing.T) {
	_, err := relockotel.NewObserver(relockotel.WithMeterProvider(nil))
	require.ErrorContains(t, err, "relockotel: a provider is nil")
	_, err = relockotel.NewObserver(relockotel.WithTracerProvider(nil))
	require.Error(t, err)
	o, err := relockotel.NewObserver(nil)
	require.NoError(t, err)
	require.NotNil(t, o)
}
