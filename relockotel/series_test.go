package relockotel_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relockotel"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
)

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
