package relockotel

import (
	"context"
	"errors"
	"sync"

	"github.com/relock-go/relock"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type metrics struct {
	wait, hold, renewal          metric.Float64Histogram
	acquisitions, losses, failed metric.Int64Counter
	holds, waiters, kept         metric.Int64UpDownCounter

	name func(lock string) string // nil without WithName

	mu    sync.RWMutex // protects the following
	known map[seriesKey]*series
	keeps map[string]int // leases that sessions keep, by session; 0 is not in it
}

// The bounds of the histograms, in seconds. Locks are held for milliseconds or for hours.
var (
	longBounds  = append(shortBounds, 30, 60, 300, 1800, 7200)
	shortBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// instruments makes the instruments.
func (m *metrics) instruments(meter metric.Meter) error {
	var errs []error
	histogram := func(name, what string, bounds []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
			metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	gauge := func(name, unit, what string) metric.Int64UpDownCounter {
		g, err := meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return g
	}
	m.wait = histogram("relock.wait.duration", "How long calls took that acquire a lock", longBounds)
	m.hold = histogram("relock.hold.duration", "How long locks were held, until the last Unlock or the loss", longBounds)
	m.renewal = histogram("relock.renewal.duration", "Round trips of renewals", shortBounds)
	m.acquisitions = counter("relock.acquisitions", "{call}", "Ends of calls that acquire a lock")
	m.losses = counter("relock.losses", "{hold}", "Holds that ended before their last Unlock")
	m.failed = counter("relock.renewal.failures", "{round}", "Rounds of renewals with an error")
	m.holds = gauge("relock.holds", "{hold}", "Locks held now")
	m.waiters = gauge("relock.waiters", "{call}", "Calls that wait for a lock now")
	m.kept = gauge("relock.kept", "{lease}", "Locks that sessions keep after Unlock (WithKeep)")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m.known, m.keeps = make(map[seriesKey]*series), make(map[string]int)
	m.failed.Add(context.Background(), 0) // see of
	m.kept.Add(context.Background(), 0)
	return nil
}

// series are the attributes of one kind of lock, and of one name, in the forms that instruments
// take without allocation.
type series struct {
	add              []metric.AddOption
	record           []metric.RecordOption
	outcomes, causes map[string][]metric.AddOption
	waits            map[string][]metric.RecordOption // by outcome
}

type seriesKey struct {
	kind relock.Kind
	name string
}

// maxKnown bounds what is kept where WithName returns ever new names.
const maxKnown = 1000

// of returns the series of a lock. When they are new it starts its counters at 0: a loss that
// made the counter appear would be no increase of it.
func (m *metrics) of(lock string, k relock.Kind) *series {
	key := seriesKey{kind: k}
	if m.name != nil {
		key.name = m.name(lock)
	}
	m.mu.RLock()
	s := m.known[key]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	s = newSeries(key)
	m.mu.Lock()
	known, full := m.known[key], len(m.known) == maxKnown
	if known == nil && !full {
		m.known[key] = s
	}
	m.mu.Unlock()
	switch {
	case known != nil:
		return known
	case full:
		return s
	}
	for _, of := range s.outcomes {
		m.acquisitions.Add(context.Background(), 0, of...)
	}
	for _, of := range s.causes {
		m.losses.Add(context.Background(), 0, of...)
	}
	m.holds.Add(context.Background(), 0, s.add...)
	m.waiters.Add(context.Background(), 0, s.add...)
	return s
}

func newSeries(key seriesKey) *series {
	attributes := []attribute.KeyValue{attribute.String("kind", key.kind.String())}
	if key.name != "" {
		attributes = append(attributes, attribute.String("lock.name", key.name))
	}
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(more, attributes...)...))
	}
	s := &series{
		add: []metric.AddOption{with()}, record: []metric.RecordOption{with()},
		outcomes: make(map[string][]metric.AddOption), causes: make(map[string][]metric.AddOption),
		waits: make(map[string][]metric.RecordOption),
	}
	for _, o := range outcomes {
		of := with(attribute.String("outcome", o))
		s.outcomes[o], s.waits[o] = []metric.AddOption{of}, []metric.RecordOption{of}
	}
	for _, c := range causes {
		s.causes[c] = []metric.AddOption{with(attribute.String("cause", c))}
	}
	return s
}
