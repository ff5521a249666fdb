package relockotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/relock-go/relock/relockotel"

// An Option sets up an observer; see the With functions.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	name    func(lock string) string
}

// WithMeterProvider sets where metrics go. The default is [otel.GetMeterProvider].
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithTracerProvider sets where spans go. The default is [otel.GetTracerProvider].
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithName adds the attribute lock.name to metrics: f(lock), or nothing where that is empty. Each
// value makes series of its own, so let f return one of a few: the part of a name before its id,
// for example. Without WithName metrics have no names. Spans always have the whole name.
func WithName(f func(lock string) string) Option { return func(c *config) { c.name = f } }

// NewObserver returns an observer for [relock.WithObserver]. One may serve any number of
// sessions. It fails if the meter provider refuses an instrument.
func NewObserver(opts ...Option) (relock.Observer, error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	if c.meters == nil || c.tracers == nil {
		return nil, errors.New("relockotel: a provider is nil; leave the option out for the global one")
	}
	o := &observer{tracer: c.tracers.Tracer(scope), name: c.name}
	if err := o.instruments(c.meters.Meter(scope)); err != nil {
		return nil, fmt.Errorf("relockotel: %w", err)
	}
	return o, nil
}

type observer struct {
	tracer trace.Tracer
	name   func(string) string

	wait, hold, renewal          metric.Float64Histogram
	acquisitions, losses, failed metric.Int64Counter
	holds, waiters               metric.Int64UpDownCounter
}

// bounds are those of the histograms of waits and holds: locks are held for milliseconds or for hours.
var bounds = metric.WithExplicitBucketBoundaries(
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)

func (o *observer) instruments(m metric.Meter) error {
	var errs []error
	histogram := func(name, what string, more ...metric.Float64HistogramOption) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, append(more, metric.WithUnit("s"), metric.WithDescription(what))...)
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	gauge := func(name, unit, what string) metric.Int64UpDownCounter {
		g, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return g
	}
	o.wait = histogram("relock.wait.duration", "How long Lock and TryLock took", bounds)
	o.hold = histogram("relock.hold.duration", "How long locks were held, until the last Unlock or the loss", bounds)
	o.renewal = histogram("relock.renewal.duration", "Round trips of renewals")
	o.acquisitions = counter("relock.acquisitions", "{call}", "Ends of Lock and TryLock")
	o.losses = counter("relock.losses", "{hold}", "Holds that ended before their last Unlock")
	o.failed = counter("relock.renewal.failures", "{round}", "Rounds of renewals with an error")
	o.holds = gauge("relock.holds", "{hold}", "Locks held now")
	o.waiters = gauge("relock.waiters", "{call}", "Calls of Lock that wait now")
	return errors.Join(errs...)
}

// attributes are the ones of metrics.
func (o *observer) attributes(lock string, k relock.Kind, more ...attribute.KeyValue) metric.MeasurementOption {
	all := append(more, attribute.String("kind", k.String()))
	if o.name != nil {
		if name := o.name(lock); name != "" {
			all = append(all, attribute.String("lock.name", name))
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

func (o *observer) Waiting(ctx context.Context, e relock.WaitEvent) {
	o.waiters.Add(ctx, 1, o.attributes(e.Name, e.Kind))
}

func (o *observer) Acquired(ctx context.Context, e relock.AcquireEvent) {
	result := outcome(e)
	of := o.attributes(e.Name, e.Kind)
	o.acquisitions.Add(ctx, 1, o.attributes(e.Name, e.Kind, attribute.String("outcome", result)))
	o.wait.Record(ctx, e.Wait.Seconds(), of)
	if e.Contended && result != missed { // a TryLock does not wait
		o.waiters.Add(ctx, -1, of)
	}
	if e.Held {
		o.holds.Add(ctx, 1, of)
	}
	o.span(ctx, e, result)
}

// The outcomes of an acquisition.
const (
	held     = "held"
	missed   = "missed" // a TryLock found it taken
	canceled = "canceled"
	failed   = "error"
)

func outcome(e relock.AcquireEvent) string {
	switch {
	case e.Held:
		return held
	case e.Err == nil:
		return missed
	case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded):
		return canceled
	}
	return failed
}

// span makes the span of a call that has just ended.
func (o *observer) span(ctx context.Context, e relock.AcquireEvent, result string) {
	end := time.Now()
	_, s := o.tracer.Start(ctx, "relock.lock", trace.WithTimestamp(end.Add(-e.Wait)), trace.WithSpanKind(trace.SpanKindClient))
	if s.IsRecording() {
		s.SetAttributes(
			attribute.String("lock.name", e.Name),
			attribute.String("lock.kind", e.Kind.String()),
			attribute.Bool("lock.contended", e.Contended),
			attribute.Bool("lock.handoff", e.Handoff),
			attribute.String("lock.outcome", result),
		)
		if e.Token != 0 {
			s.SetAttributes(attribute.Int64("lock.token", e.Token))
		}
		if e.Err != nil {
			s.RecordError(e.Err)
			s.SetStatus(codes.Error, e.Err.Error())
		}
	}
	s.End(trace.WithTimestamp(end))
}

func (o *observer) Released(ctx context.Context, e relock.ReleaseEvent) {
	of := o.attributes(e.Name, e.Kind)
	o.holds.Add(ctx, -1, of)
	o.hold.Record(ctx, e.Held.Seconds(), of)
}

func (o *observer) Lost(e relock.LostEvent) {
	ctx, of := context.Background(), o.attributes(e.Name, e.Kind)
	o.losses.Add(ctx, 1, o.attributes(e.Name, e.Kind, attribute.String("cause", cause(e.Cause))))
	o.holds.Add(ctx, -1, of)
	o.hold.Record(ctx, e.Held.Seconds(), of)
}

// causes are the texts of [relock.LostEvent].Cause in a word each.
var causes = map[string]string{
	"its lease ran out before it could be renewed":  "expired",
	"its lease ran out":                             "ended",
	"it was held for as long as WithMaxHold allows": "max_hold",
	"it is not in Redis any more":                   "gone",
	"it was forced open":                            "forced",
}

func cause(err error) string {
	if errors.Is(err, relock.ErrClosed) {
		return "closed"
	}
	if err != nil {
		if word := causes[err.Error()]; word != "" {
			return word
		}
	}
	return "other"
}

func (o *observer) Renewed(e relock.RenewEvent) {
	ctx := context.Background()
	o.renewal.Record(ctx, e.Duration.Seconds())
	if e.Err != nil {
		o.failed.Add(ctx, 1)
	}
}
