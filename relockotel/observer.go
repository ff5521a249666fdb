package relockotel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
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
// value makes series of its own, so let f return the class of a lock, one of a few: the part of its
// name before an id, for example. Without WithName metrics have no names. Spans always have the whole
// name. The alerts find a stuck lock by its class, and leave out classes that start with "leader".
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
	version := version()
	o := &observer{tracer: c.tracers.Tracer(scope, trace.WithInstrumentationVersion(version))}
	o.name = c.name
	if err := o.instruments(c.meters.Meter(scope, metric.WithInstrumentationVersion(version))); err != nil {
		return nil, fmt.Errorf("relockotel: %w", err)
	}
	return o, nil
}

type observer struct {
	tracer trace.Tracer
	metrics
}

func (o *observer) Waiting(ctx context.Context, e relock.WaitEvent) {
	o.waiters.Add(ctx, 1, o.of(e.Name, e.Kind).add...)
}

func (o *observer) Acquired(ctx context.Context, e relock.AcquireEvent) {
	result, s := outcome(e), o.of(e.Name, e.Kind)
	o.acquisitions.Add(ctx, 1, s.outcomes[result]...)
	o.wait.Record(ctx, e.Wait.Seconds(), s.waits[result]...)
	if e.Waited {
		o.waiters.Add(ctx, -1, s.add...)
	}
	if e.Held {
		o.holds.Add(ctx, 1, s.add...)
	}
	o.span(ctx, e, result)
}

func (o *observer) Released(ctx context.Context, e relock.ReleaseEvent) {
	s := o.of(e.Name, e.Kind)
	o.holds.Add(ctx, -1, s.add...)
	o.hold.Record(ctx, e.Held.Seconds(), s.record...)
}

func (o *observer) Lost(e relock.LostEvent) {
	ctx, s := context.Background(), o.of(e.Name, e.Kind)
	o.losses.Add(ctx, 1, s.causes[cause(e.Cause)]...)
	o.holds.Add(ctx, -1, s.add...)
	o.hold.Record(ctx, e.Held.Seconds(), s.record...)
}

func (o *observer) Renewed(e relock.RenewEvent) {
	ctx := context.Background()
	o.renewal.Record(ctx, e.Duration.Seconds())
	if e.Err != nil {
		o.failed.Add(ctx, 1)
	}
}

func (o *observer) Kept(e relock.KeepEvent) {
	o.mu.Lock()
	more := int64(e.Leases - o.keeps[e.Session])
	if o.keeps[e.Session] = e.Leases; e.Leases == 0 {
		delete(o.keeps, e.Session)
	}
	o.mu.Unlock()
	o.kept.Add(context.Background(), more)
}

// The outcomes of an acquisition.
const (
	held       = "held"
	missed     = "missed" // a TryLock found it taken
	canceled   = "canceled"
	unanswered = "unanswered" // it ended while Redis did not answer
	failed     = "error"
)

var outcomes = []string{held, missed, canceled, unanswered, failed}

func outcome(e relock.AcquireEvent) string {
	switch {
	case e.Held:
		return held
	case e.Err == nil:
		return missed
	case errors.Is(e.Err, relock.ErrUnavailable):
		return unanswered
	case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded):
		return canceled
	}
	return failed
}

// span makes the span of a call that has just ended.
func (o *observer) span(ctx context.Context, e relock.AcquireEvent, result string) {
	end := time.Now()
	_, s := o.tracer.Start(ctx, "relock.lock", trace.WithTimestamp(end.Add(-e.Wait)))
	if s.IsRecording() {
		s.SetAttributes(
			attribute.String("lock.name", e.Name),
			attribute.String("lock.kind", e.Kind.String()),
			attribute.Bool("lock.contended", e.Contended),
			attribute.Bool("lock.local", e.Local),
			attribute.Bool("lock.kept", e.Kept),
			attribute.String("lock.outcome", result),
		)
		if e.Token != 0 {
			s.SetAttributes(attribute.Int64("lock.token", e.Token))
		}
		if e.Err != nil {
			s.RecordError(e.Err)
			s.SetAttributes(attribute.String("error.type", errorType(e.Err)))
			s.SetStatus(codes.Error, e.Err.Error())
		}
	}
	s.End(trace.WithTimestamp(end))
}

// errorTypes are the words of error.type, the first that fits. They are few, as that attribute must be.
var errorTypes = []struct {
	err  error
	word string
}{
	{relock.ErrClosed, "closed"},
	{relock.ErrUnavailable, "unavailable"},
	{relock.ErrReplicas, "replicas"},
	{relock.ErrLost, "lost"},
	{relock.ErrNotLock, "not_lock"},
	{relock.ErrName, "bad_name"},
	{relock.ErrOption, "bad_option"},
	{relock.ErrDeadlock, "deadlock"},
	{relock.ErrUpgrade, "upgrade"},
	{relock.ErrTaken, "taken"},
	{context.DeadlineExceeded, "deadline_exceeded"},
	{context.Canceled, "canceled"},
}

func errorType(err error) string {
	for _, t := range errorTypes {
		if errors.Is(err, t.err) {
			return t.word
		}
	}
	return "_OTHER" // of OpenTelemetry's conventions: Redis has refused
}

// causes are words for the losses of [relock.LostEvent].
var causes = []string{expired, ended, maxHold, gone, forced, closed, other}

const (
	expired = "expired"
	ended   = "ended"
	maxHold = "max_hold"
	gone    = "gone"
	forced  = "forced"
	closed  = "closed"
	other   = "other"
)

func cause(err error) string {
	switch {
	case errors.Is(err, relock.ErrClosed):
		return closed
	case errors.Is(err, relock.ErrForced):
		return forced
	case errors.Is(err, relock.ErrGone):
		return gone
	case errors.Is(err, relock.ErrExpired):
		return cmp.Or(limits[strings.TrimPrefix(err.Error(), relock.ErrLost.Error()+": ")], expired)
	}
	return other
}

// limits are the words for the ends that the holder itself has set. They are ErrExpired too, and only
// their texts tell.
var limits = map[string]string{
	"its lease ran out":                             ended,
	"it was held for as long as WithMaxHold allows": maxHold,
}
