package relockotel_test

import (
	"context"
	"fmt"
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
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
)

var background = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// telemetry is what an observer has reported.
type telemetry struct {
	t        testing.TB
	observer relock.Observer
	metrics  *sdkmetric.ManualReader
	tracing  *trace.TracerProvider
	spans    *tracetest.SpanRecorder
}

func newTelemetry(t testing.TB, opts ...relockotel.Option) *telemetry {
	t.Helper()
	x := &telemetry{t: t, metrics: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	x.tracing = trace.NewTracerProvider(trace.WithSpanProcessor(x.spans))
	var err error
	x.observer, err = relockotel.NewObserver(append([]relockotel.Option{
		relockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(x.metrics))),
		relockotel.WithTracerProvider(x.tracing),
	}, opts...)...)
	require.NoError(t, err)
	return x
}

// series returns the series of a metric: the values of counters, and the numbers of observations
// of histograms, by their attributes.
func (x *telemetry) series(name string) map[string]int64 {
	x.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(x.t, x.metrics.Collect(background, &all))
	values := make(map[string]int64)
	text := func(s attribute.Set) string {
		var words []string
		for _, kv := range s.ToSlice() {
			words = append(words, string(kv.Key)+"="+kv.Value.Emit())
		}
		return strings.Join(words, " ")
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					values[text(p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				require.Equal(x.t, "s", m.Unit)
				for _, p := range d.DataPoints {
					values[text(p.Attributes)] = int64(p.Count)
				}
			}
		}
	}
	return values
}

// sum returns the sum of a histogram's series, rounded to milliseconds.
func (x *telemetry) sum(name, attributes string) time.Duration {
	x.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(x.t, x.metrics.Collect(background, &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if d, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == name {
				for _, p := range d.DataPoints {
					if kind, _ := p.Attributes.Value("kind"); "kind="+kind.AsString() == attributes {
						return time.Duration(p.Sum * 1e9).Round(time.Millisecond)
					}
				}
			}
		}
	}
	return 0
}

// A lockType is a type of lock, or a side of one.
type lockType struct {
	kind  string
	redis int // servers
	make  func(s []*relock.Session, name string, o ...relock.LockOption) relock.Locker
}

var lockTypes = []lockType{
	{"mutex", 1, func(s []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return s[0].Mutex(name, o...)
	}},
	{"fair", 1, func(s []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return s[0].FairMutex(name, o...)
	}},
	{"write", 1, func(s []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return s[0].RWMutex(name, o...)
	}},
	{"read", 1, func(s []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return s[0].RWMutex(name, o...).RLocker()
	}},
	{"group", 1, func(s []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return relock.NewGroup(s[0].Mutex(name, o...), s[0].FairMutex(name+"2", o...))
	}},
	{"redlock", 3, func(s []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return relock.NewRedlock(s, name, o...)
	}},
}

// onEach runs f in a bubble for each type of lock, with the servers.
func onEach(t *testing.T, f func(t *testing.T, typ lockType, redis []*relocktest.Redis)) {
	t.Helper()
	for _, typ := range lockTypes {
		t.Run(typ.kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var redis []*relocktest.Redis
				for range typ.redis {
					redis = append(redis, relocktest.New(t))
				}
				f(t, typ, redis)
			})
		})
	}
}

func sessions(redis []*relocktest.Redis, opts ...relock.SessionOption) (all []*relock.Session) {
	for _, r := range redis {
		all = append(all, r.Session(opts...))
	}
	return all
}

func TestMetricsOfHoldsAndWaits(t *testing.T) {
	onEach(t, func(t *testing.T, typ lockType, redis []*relocktest.Redis) {
		x, kind := newTelemetry(t), "kind="+typ.kind
		s, other := sessions(redis, relock.WithObserver(x.observer)), sessions(redis)
		// A writer excludes each kind of lock.
		rival := func() relock.Locker {
			if typ.kind == "read" {
				return other[0].RWMutex("lock")
			}
			return typ.make(other, "lock")
		}()
		l := typ.make(s, "lock")
		require.NoError(t, l.Lock(background))
		require.EqualValues(t, 1, x.series("relock.holds")[kind])
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Unlock(background))
		require.EqualValues(t, 0, x.series("relock.holds")[kind])
		require.Equal(t, 3*time.Second, x.sum("relock.hold.duration", kind))

		require.NoError(t, rival.Lock(background))
		ok, err := l.TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		require.EqualValues(t, 0, x.series("relock.waiters")[kind])

		got := make(chan error)
		go func() { got <- l.Lock(background) }()
		time.Sleep(time.Second)
		require.EqualValues(t, 1, x.series("relock.waiters")[kind])
		ctx, cancel := context.WithTimeout(background, time.Second)
		require.ErrorIs(t, typ.make(s, "lock").Lock(ctx), context.DeadlineExceeded)
		cancel()
		require.EqualValues(t, 1, x.series("relock.waiters")[kind])
		require.NoError(t, rival.Unlock(background))
		require.NoError(t, <-got)
		require.EqualValues(t, 0, x.series("relock.waiters")[kind])
		require.EqualValues(t, 1, x.series("relock.holds")[kind])
		require.NoError(t, l.Unlock(background))
		require.Error(t, typ.make(s, "{").Lock(background))

		results := x.series("relock.acquisitions")
		require.EqualValues(t, 2, results[kind+" outcome=held"])
		require.EqualValues(t, 1, results[kind+" outcome=missed"])
		require.EqualValues(t, 1, results[kind+" outcome=canceled"])
		require.EqualValues(t, 1, results[kind+" outcome=error"])
		require.EqualValues(t, 5, x.series("relock.wait.duration")[kind])
		require.EqualValues(t, 2, x.series("relock.hold.duration")[kind])
		require.EqualValues(t, 0, x.series("relock.waiters")[kind])
		require.EqualValues(t, 0, x.series("relock.holds")[kind])
		require.Zero(t, x.series("relock.losses")[kind])
		require.GreaterOrEqual(t, x.sum("relock.wait.duration", kind), 3*time.Second)
	})
}

func TestLossesByCause(t *testing.T) {
	onEach(t, func(t *testing.T, typ lockType, redis []*relocktest.Redis) {
		for cause, lose := range map[string]struct {
			opt relock.LockOption
			do  func(s []*relock.Session)
		}{
			"expired":  {nil, func(s []*relock.Session) { each(redis, s, func(r *relocktest.Redis, s *relock.Session) { r.Partition(s) }) }},
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
			l := typ.make(s, "lock", lose.opt)
			require.NoError(t, l.Lock(background))
			time.Sleep(500 * time.Millisecond)
			lose.do(s)
			<-l.Done()
			synctest.Wait()
			require.EqualValues(t, map[string]int64{cause: 1}, only(x.series("relock.losses"), typ.kind), cause)
			require.EqualValues(t, 0, x.series("relock.holds")["kind="+typ.kind], cause)
			require.EqualValues(t, 1, x.series("relock.hold.duration")["kind="+typ.kind], cause)
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			time.Sleep(time.Minute) // nothing of it is left
		}
	})
}

func each(redis []*relocktest.Redis, s []*relock.Session, f func(*relocktest.Redis, *relock.Session)) {
	for i, r := range redis {
		f(r, s[i])
	}
}

// only returns the series of a kind by their cause.
func only(all map[string]int64, kind string) map[string]int64 {
	of := make(map[string]int64)
	for attributes, n := range all {
		if cause, ok := strings.CutSuffix(attributes, " kind="+kind); ok {
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
		require.Empty(t, x.series("relock.renewal.failures"))
		heal := redis.Partition(s)
		time.Sleep(20 * time.Second)
		require.Positive(t, x.series("relock.renewal.failures")[""])
		heal()
	})
}

// The number of series does not depend on the number of names.
func TestSeriesStayFew(t *testing.T) {
	const names = 10000
	for what, c := range map[string]struct {
		opts []relockotel.Option
		want []string
	}{
		"no names": {nil, []string{"kind=mutex"}},
		"a few": {
			[]relockotel.Option{relockotel.WithName(func(lock string) string {
				if !strings.HasPrefix(lock, "order:") {
					return ""
				}
				return "order"
			})}, []string{"kind=mutex", "kind=mutex lock.name=order"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTelemetry(t, c.opts...)
				s := relocktest.New(t).Session(relock.WithObserver(x.observer))
				for i := range names {
					m := s.Mutex(fmt.Sprint([]string{"order:", "cart:"}[i%2], i))
					require.NoError(t, m.Lock(background))
					require.NoError(t, m.Unlock(background))
				}
				for _, metric := range []string{"relock.wait.duration", "relock.hold.duration", "relock.holds"} {
					var got []string
					for attributes := range x.series(metric) {
						got = append(got, attributes)
					}
					slices.Sort(got)
					require.Equal(t, c.want, got, metric)
				}
			})
		})
	}
}

func TestSpans(t *testing.T) {
	onEach(t, func(t *testing.T, typ lockType, redis []*relocktest.Redis) {
		x := newTelemetry(t)
		s, other := sessions(redis, relock.WithObserver(x.observer)), sessions(redis)
		ctx, parent := x.tracing.Tracer("test").Start(background, "request")
		rival := typ.make(other, "lock")
		if typ.kind == "read" {
			rival = other[0].RWMutex("lock")
		}
		require.NoError(t, rival.Lock(background))
		start := time.Now()
		time.AfterFunc(time.Second, func() { _ = rival.Unlock(background) })
		require.NoError(t, typ.make(s, "lock").Lock(ctx))
		end := time.Now()
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		require.Error(t, typ.make(s, "lock").Lock(canceled))
		parent.End()

		var own []trace.ReadOnlySpan // without those of members
		for _, span := range x.spans.Ended() {
			if value(span, "lock.kind").AsString() == typ.kind {
				own = append(own, span)
			}
		}
		require.Len(t, own, 2)
		span := own[0]
		require.Equal(t, "relock.lock", span.Name())
		require.Equal(t, parent.SpanContext().SpanID(), span.Parent().SpanID())
		require.Equal(t, start, span.StartTime())
		require.Equal(t, end, span.EndTime())
		require.Contains(t, value(span, "lock.name").AsString(), "lock")
		require.True(t, value(span, "lock.contended").AsBool())
		require.False(t, value(span, "lock.handoff").AsBool())
		require.Equal(t, "held", value(span, "lock.outcome").AsString())
		if typ.kind == "mutex" || typ.kind == "fair" || typ.kind == "write" {
			require.Positive(t, value(span, "lock.token").AsInt64())
		} else {
			require.Equal(t, attribute.INVALID, value(span, "lock.token").Type())
		}
		require.Equal(t, codes.Unset, span.Status().Code)
		require.Equal(t, codes.Error, own[1].Status().Code)
		require.Equal(t, "canceled", value(own[1], "lock.outcome").AsString())
	})
}

func value(s trace.ReadOnlySpan, key attribute.Key) attribute.Value {
	for _, kv := range s.Attributes() {
		if kv.Key == key {
			return kv.Value
		}
	}
	return attribute.Value{}
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
