package relockotel_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relockotel"
	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

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

// points calls one of the functions for each series of a metric, with its attributes.
func (x *telemetry) points(
	name string, count func(metricdata.DataPoint[int64]), observed func(metricdata.HistogramDataPoint[float64]),
) {
	x.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(x.t, x.metrics.Collect(background, &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					count(p)
				}
			case metricdata.Histogram[float64]:
				require.Equal(x.t, "s", m.Unit)
				for _, p := range d.DataPoints {
					observed(p)
				}
			}
		}
	}
}

// series returns the series of a metric: the values of counters, and the numbers of observations
// of histograms, by their attributes.
func (x *telemetry) series(name string) map[string]int64 {
	x.t.Helper()
	values := make(map[string]int64)
	x.points(name,
		func(p metricdata.DataPoint[int64]) { values[words(p.Attributes)] = p.Value },
		func(p metricdata.HistogramDataPoint[float64]) { values[words(p.Attributes)] = int64(p.Count) })
	return values
}

// sum returns the sum of a histogram's series, rounded to milliseconds.
func (x *telemetry) sum(name, attributes string) (sum time.Duration) {
	x.t.Helper()
	x.points(name, nil, func(p metricdata.HistogramDataPoint[float64]) {
		if words(p.Attributes) == attributes {
			sum = time.Duration(p.Sum * 1e9).Round(time.Millisecond)
		}
	})
	return sum
}

// words returns attributes as text.
func words(s attribute.Set) string {
	var all []string
	for _, kv := range s.ToSlice() {
		all = append(all, string(kv.Key)+"="+kv.Value.Emit())
	}
	return strings.Join(all, " ")
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
		return relock.NewGroup(s[0].Mutex(name, o...), s[0].Mutex(name+"2", o...))
	}},
	{"redlock", 3, func(s []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return relock.NewRedlock(s, name, o...)
	}},
}

// rivalOf returns a lock that excludes those of the type: for readers a writer.
func rivalOf(typ lockType, s []*relock.Session) relock.Locker {
	if typ.kind == "read" {
		return s[0].RWMutex("lock")
	}
	return typ.make(s, "lock")
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
