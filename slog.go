package relock

import (
	"context"
	"log/slog"
	"strings"
)

// SlogObserver returns an observer that logs to l ([slog.Default] if nil): losses (by Close too) as
// errors, failed renewals as warnings, the rest at debug level.
func SlogObserver(l *slog.Logger) Observer {
	if l == nil {
		l = slog.Default()
	}
	return &slogObserver{l}
}

type slogObserver struct{ l *slog.Logger }

func (o *slogObserver) Waiting(ctx context.Context, e WaitEvent) {
	if o.l.Enabled(ctx, slog.LevelDebug) {
		o.l.LogAttrs(ctx, slog.LevelDebug, "relock: waiting", lockAttr(e.Name), kindAttr(e.Kind))
	}
}

func (o *slogObserver) Acquired(ctx context.Context, e AcquireEvent) {
	if !o.l.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{lockAttr(e.Name), kindAttr(e.Kind), slog.Duration("wait", e.Wait), slog.Bool("contended", e.Contended)}
	text := "relock: acquired"
	switch {
	case e.Err != nil:
		text, attrs = "relock: not acquired", append(attrs, errorAttr(e.Err))
	case !e.Held:
		text = "relock: taken"
	default:
		attrs = append(attrs, slog.Bool("local", e.Local))
	}
	if e.Token != 0 {
		attrs = append(attrs, slog.Int64("token", e.Token))
	}
	o.l.LogAttrs(ctx, slog.LevelDebug, text, attrs...)
}

func (o *slogObserver) Released(ctx context.Context, e ReleaseEvent) {
	if !o.l.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{lockAttr(e.Name), kindAttr(e.Kind), slog.Duration("held", e.Held)}
	if e.Err != nil {
		attrs = append(attrs, errorAttr(e.Err))
	}
	o.l.LogAttrs(ctx, slog.LevelDebug, "relock: released", attrs...)
}

func (o *slogObserver) Lost(e LostEvent) {
	if ctx := context.Background(); o.l.Enabled(ctx, slog.LevelError) {
		o.l.LogAttrs(ctx, slog.LevelError, "relock: lost",
			lockAttr(e.Name), kindAttr(e.Kind), slog.Duration("held", e.Held), slog.String("cause", strings.TrimPrefix(e.Cause.Error(), ErrLost.Error()+": ")))
	}
}

func (o *slogObserver) Renewed(e RenewEvent) {
	level, text := slog.LevelDebug, "relock: renewed"
	if e.Err != nil {
		level, text = slog.LevelWarn, "relock: not renewed"
	}
	ctx := context.Background()
	if !o.l.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.Int("holds", e.Holds), slog.Duration("took", e.Duration)}
	if e.Err != nil {
		attrs = append(attrs, errorAttr(e.Err))
	}
	o.l.LogAttrs(ctx, level, text, attrs...)
}

func (o *slogObserver) Kept(e KeepEvent) {
	if ctx := context.Background(); o.l.Enabled(ctx, slog.LevelDebug) {
		o.l.LogAttrs(ctx, slog.LevelDebug, "relock: kept", slog.Int("leases", e.Leases))
	}
}

func lockAttr(name string) slog.Attr { return slog.String("lock", name) }
func kindAttr(k Kind) slog.Attr      { return slog.String("kind", k.String()) }
func errorAttr(err error) slog.Attr  { return slog.String("error", err.Error()) }
