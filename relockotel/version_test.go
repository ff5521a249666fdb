package relockotel

import (
	"context"
	"runtime/debug"
	"testing"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestScopeHasTheVersion(t *testing.T) {
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
	o, err := NewObserver(
		WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
		WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans))))
	require.NoError(t, err)
	o.Acquired(context.Background(), relock.AcquireEvent{Name: "a", Kind: relock.KindMutex, Held: true})
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	require.Equal(t, scope, all.ScopeMetrics[0].Scope.Name)
	require.NotEmpty(t, version())
	require.Equal(t, version(), all.ScopeMetrics[0].Scope.Version)
	require.Equal(t, version(), spans.Ended()[0].InstrumentationScope().Version)
}

func TestVersionIsThatOfTheModule(t *testing.T) {
	at := func(path, version string) *debug.Module { return &debug.Module{Path: path, Version: version} }
	replaced := at(scope, "v0.1.0")
	replaced.Replace = at("../relockotel", "")
	forked := at(scope, "v0.1.0")
	forked.Replace = at("example.com/fork", "v0.1.1")
	for want, info := range map[string]*debug.BuildInfo{
		"v0.2.0":  {Main: *at("example.com/shop", "v9.0.0"), Deps: []*debug.Module{at("a", "v1.0.0"), at(scope, "v0.2.0")}},
		"v0.1.1":  {Main: *at("example.com/shop", "v9.0.0"), Deps: []*debug.Module{forked}},
		"v0.3.0":  {Main: *at(scope, "v0.3.0")},
		"(devel)": {Deps: []*debug.Module{replaced}},
	} {
		require.Equal(t, want, versionIn(info))
	}
	require.Equal(t, "(devel)", versionIn(&debug.BuildInfo{}))
}
