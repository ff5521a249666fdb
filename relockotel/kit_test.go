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

// point is one series: the value of a counter, or how many observations a histogram has, and their sum.
type point struct {
	n   int64
	sum time.Duration
}

// points returns the series of a metric by their attributes.
func (x *telemetry) points(name string) map[string]point {
	x.t.Helper()
	points := make(map[string]point)
	for _, m := range x.collect() {
		if m.Name != name {
			continue
		}
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				points[words(p.Attributes)] = point{n: p.Value}
			}
		case metricdata.Histogram[float64]:
			require.Equal(x.t, "s", m.Unit)
			for _, p := range d.DataPoints {
				points[words(p.Attributes)] = point{int64(p.Count), time.Duration(p.Sum * 1e9).Round(time.Millisecond)}
			}
		}
	}
	return points
}

// collect returns all metrics.
func (x *telemetry) collect() []metricdata.Metrics {
	x.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(x.t, x.metrics.Collect(background, &all))
	return all.ScopeMetrics[0].Metrics
}

// words returns attributes as text.
func words(s attribute.Set) string {
	var all []string
	for _, kv := range s.ToSlice() {
		all = append(all, string(kv.Key)+"="+kv.Value.Emit())
	}
	return strings.Join(all, " ")
}

// lockOf returns a lock of a kind, or a side of one.
func lockOf(kind string, s []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
	switch kind {
	case "mutex":
		return s[0].Mutex(name, o...)
	case "fair":
		return s[0].FairMutex(name, o...)
	case "write":
		return s[0].RWMutex(name, o...)
	case "read":
		return s[0].RWMutex(name, o...).RLocker()
	case "group":
		return relock.NewGroup(s[0].Mutex(name, o...), s[0].Mutex(name+"2", o...))
	}
	return relock.NewRedlock(s, name, o...)
}

// onEach runs f in a bubble for each kind of lock, with the servers.
func onEach(t *testing.T, f func(t *testing.T, kind string, redis []*relocktest.Redis)) {
	t.Helper()
	for kind, servers := range map[string]int{"mutex": 1, "fair": 1, "write": 1, "read": 1, "group": 1, "redlock": 3} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var redis []*relocktest.Redis
				for range servers {
					redis = append(redis, relocktest.New(t))
				}
				f(t, kind, redis)
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
