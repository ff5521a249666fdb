package relockotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
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
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
)

var background = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMetricsOfHoldsAndWaits(t *testing.T) {
	onEach(t, func(t *testing.T, kind string, redis []*relocktest.Redis) {
		x, of := newTelemetry(t), "kind="+kind
		s, other := sessions(redis, relock.WithObserver(x.observer)), sessions(redis)
		rival := lockOf(strings.Replace(kind, "read", "write", 1), other, "lock") // which excludes it
		now := func(holds, waiters int) {
			t.Helper()
			require.EqualValues(t, holds, x.points("relock.holds")[of].n)
			require.EqualValues(t, waiters, x.points("relock.waiters")[of].n)
		}
		l := lockOf(kind, s, "lock")
		require.NoError(t, l.Lock(background))
		now(1, 0)
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Unlock(background))
		now(0, 0)
		require.Equal(t, 3*time.Second, x.points("relock.hold.duration")[of].sum)

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
			require.EqualValues(t, n, x.points("relock.acquisitions")[of+" outcome="+outcome].n, outcome)
			require.EqualValues(t, n, x.points("relock.wait.duration")[of+" outcome="+outcome].n, outcome)
		}
		require.EqualValues(t, 2, x.points("relock.hold.duration")[of].n)
		now(0, 0)
		require.Zero(t, x.points("relock.losses")[of].n)
		require.GreaterOrEqual(t, x.points("relock.wait.duration")[of+" outcome=held"].sum, 2*time.Second)
		require.Equal(t, time.Second, x.points("relock.wait.duration")[of+" outcome=canceled"].sum)
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
			for attributes, p := range x.points("relock.losses") { // a group's members have series of their own kind
				if strings.HasSuffix(attributes, " kind="+kind) {
					require.Equal(t, attributes == "cause="+cause+" kind="+kind, p.n == 1, "%s: %d of %s", cause, p.n, attributes)
				}
			}
			require.EqualValues(t, 0, x.points("relock.holds")["kind="+kind].n, cause)
			require.EqualValues(t, 1, x.points("relock.hold.duration")["kind="+kind].n, cause)
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			time.Sleep(time.Minute) // nothing of it is left
		}
	})
}

func TestRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, redis := newTelemetry(t), relocktest.New(t)
		s := redis.Session(relock.WithObserver(x.observer))
		require.NoError(t, s.Mutex("lock").Lock(background))
		time.Sleep(45 * time.Second)
		require.EqualValues(t, 4, x.points("relock.renewal.duration")[""].n)
		require.Equal(t, map[string]point{"": {}}, x.points("relock.renewal.failures"))
		heal := redis.Partition(s)
		time.Sleep(20 * time.Second)
		require.Positive(t, x.points("relock.renewal.failures")[""].n)
		heal()
	})
}

func TestSpans(t *testing.T) {
	onEach(t, func(t *testing.T, kind string, redis []*relocktest.Redis) {
		x := newTelemetry(t)
		s, other := sessions(redis, relock.WithObserver(x.observer)), sessions(redis)
		ctx, parent := x.tracing.Tracer("test").Start(background, "request")
		rival := lockOf(strings.Replace(kind, "read", "write", 1), other, "lock") // which excludes it
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
			"lock.contended=true", "lock.kept=false", "lock.kind=" + kind, "lock.local=false", "lock.outcome=held",
		} {
			require.Contains(t, text, want)
		}
		require.Regexp(t, `lock\.name=.*lock`, text)
		if kind == "mutex" || kind == "fair" || kind == "write" || kind == "redlock" {
			require.Regexp(t, `lock\.token=[1-9]`, text)
		} else {
			require.NotContains(t, text, "lock.token")
		}
		require.Equal(t, codes.Error, spans[1].Status().Code)
		failed := words(attribute.NewSet(spans[1].Attributes()...))
		require.Contains(t, failed, "lock.outcome=canceled")
		require.Contains(t, failed, "error.type=canceled")
		require.NotContains(t, text, "error.type")
	})
}

func TestErrorsHaveTypes(t *testing.T) {
	for want, err := range map[string]error{
		"closed": relock.ErrClosed, "lost": relock.ErrLost, "not_lock": relock.ErrNotLock, "bad_name": relock.ErrName,
		"bad_option": relock.ErrOption, "deadlock": relock.ErrDeadlock, "upgrade": relock.ErrUpgrade,
		"taken": errors.Join(context.DeadlineExceeded, relock.ErrTaken), "deadline_exceeded": context.DeadlineExceeded,
		"canceled": context.Canceled, "_OTHER": errors.New("OOM command not allowed"),
	} {
		x := newTelemetry(t)
		x.observer.Acquired(background, relock.AcquireEvent{Name: "a", Kind: relock.KindMutex, Err: fmt.Errorf("lock: %w", err)})
		require.Len(t, x.spans.Ended(), 1)
		require.Contains(t, words(attribute.NewSet(x.spans.Ended()[0].Attributes()...)), "error.type="+want)
	}
}

func TestNilProvidersAreRefused(t *testing.T) {
	for _, opt := range []relockotel.Option{relockotel.WithMeterProvider(nil), relockotel.WithTracerProvider(nil)} {
		_, err := relockotel.NewObserver(opt)
		require.ErrorContains(t, err, "relockotel: a provider is nil")
	}
}

var metricNames = []string{
	"relock.acquisitions", "relock.hold.duration", "relock.holds", "relock.losses",
	"relock.renewal.duration", "relock.renewal.failures", "relock.wait.duration", "relock.waiters",
}

var untraced = relockotel.WithTracerProvider(noop.NewTracerProvider())

// report reports every event of a lock to o.
func report(o relock.Observer, name string, kind relock.Kind) {
	o.Waiting(background, relock.WaitEvent{Name: name, Kind: kind})
	o.Acquired(background, relock.AcquireEvent{Name: name, Kind: kind, Held: true, Contended: true, Waited: true, Token: 7})
	o.Lost(relock.LostEvent{Name: name, Kind: kind, Held: time.Second, Cause: errors.New("it was forced open")})
	o.Acquired(background, relock.AcquireEvent{Name: name, Kind: kind, Contended: true})
	o.Acquired(background, relock.AcquireEvent{Name: name, Kind: kind, Err: fmt.Errorf("lock %s", name)})
	o.Acquired(background, relock.AcquireEvent{Name: name, Kind: kind, Held: true})
	o.Released(background, relock.ReleaseEvent{Name: name, Kind: kind, Held: time.Second, Err: fmt.Errorf("unlock %s", name)})
	o.Renewed(relock.RenewEvent{Holds: 1, Duration: time.Millisecond, Err: fmt.Errorf("renew %s", name)})
}

var result = regexp.MustCompile(` ?(cause|outcome)=\w+`)

// The number of series does not depend on the number of names.
func TestSeriesStayFew(t *testing.T) {
	orders := relockotel.WithName(func(lock string) string {
		if !strings.HasPrefix(lock, "order:") {
			return ""
		}
		return "order"
	})
	for what, c := range map[string]struct {
		opt  relockotel.Option
		want []string
	}{
		"no names":   {nil, []string{"kind=mutex"}},
		"a nil func": {relockotel.WithName(nil), []string{"kind=mutex"}},
		"a few":      {orders, []string{"kind=mutex", "kind=mutex lock.name=order"}},
	} {
		x := newTelemetry(t, c.opt, untraced)
		for i := range 10000 {
			report(x.observer, fmt.Sprint([]string{"order:", "cart:"}[i%2], i), relock.KindMutex)
		}
		for _, metric := range metricNames {
			of := make(map[string]bool)
			for attributes := range x.points(metric) {
				of[strings.TrimSpace(result.ReplaceAllString(attributes, ""))] = true
			}
			want := c.want
			if strings.HasPrefix(metric, "relock.renewal") {
				want = []string{""}
			}
			require.ElementsMatch(t, want, slices.Collect(maps.Keys(of)), what+": "+metric)
		}
	}
}

// An increase from nothing is none for Prometheus: counters start at 0.
func TestCountersStartAtZero(t *testing.T) {
	x := newTelemetry(t)
	x.observer.Acquired(background, relock.AcquireEvent{Name: "a", Kind: relock.KindRead, Held: true})
	causes := map[string]point{}
	for _, cause := range []string{"expired", "ended", "max_hold", "gone", "forced", "closed", "other"} {
		causes["cause="+cause+" kind=read"] = point{}
	}
	require.Equal(t, causes, x.points("relock.losses"))
	for _, outcome := range []string{"held", "missed", "canceled", "error"} {
		require.Contains(t, x.points("relock.acquisitions"), "kind=read outcome="+outcome)
	}
	require.Contains(t, x.points("relock.waiters"), "kind=read")
	require.Contains(t, x.points("relock.renewal.failures"), "")
	x.observer.Lost(relock.LostEvent{Name: "a", Kind: relock.KindRead, Cause: errors.New("something new")})
	causes["cause=other kind=read"] = point{n: 1}
	require.Equal(t, causes, x.points("relock.losses"))
}

// One observer counts what all its sessions keep.
func TestKeptLocksOfTwoSessionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, redis := newTelemetry(t), relocktest.New(t)
		kept := func() int64 {
			time.Sleep(5 * time.Second) // it is told once a second at most
			return x.points("relock.kept")[""].n
		}
		a, b := redis.Session(relock.WithObserver(x.observer)), redis.Session(relock.WithObserver(x.observer))
		for i, s := range []*relock.Session{a, a, b} {
			m := s.Mutex(fmt.Sprint("m", i), relock.WithKeep(time.Hour))
			require.NoError(t, m.Lock(background))
			require.NoError(t, m.Unlock(background))
		}
		require.EqualValues(t, 3, kept())
		redis.Hold("m0")() // it is recalled
		require.EqualValues(t, 2, kept())
		require.NoError(t, b.Close(background))
		require.EqualValues(t, 1, kept())
		require.NoError(t, a.Close(background))
		require.EqualValues(t, 0, kept())
	})
}

// Without a span to record, an event costs no allocation but those of the tracer.
func TestMetricsAllocateNothing(t *testing.T) {
	for what, opt := range map[string]relockotel.Option{
		"no names": nil, "names": relockotel.WithName(func(string) string { return "order" }),
	} {
		x := newTelemetry(t, opt, untraced)
		cause := errors.New("it was forced open")
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			x.observer.Waiting(background, relock.WaitEvent{Name: "a", Kind: relock.KindMutex})
			x.observer.Released(background, relock.ReleaseEvent{Name: "a", Kind: relock.KindMutex})
			x.observer.Lost(relock.LostEvent{Name: "a", Kind: relock.KindMutex, Cause: cause})
			x.observer.Renewed(relock.RenewEvent{Err: cause})
		}), what)
	}
}
