package locks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// When events come, and with what in them, is in test/virtual.

func TestKindsHaveNames(t *testing.T) {
	var names []string
	for _, k := range []relock.Kind{
		relock.KindMutex, relock.KindFair, relock.KindRead, relock.KindWrite, relock.KindGroup, relock.KindRedlock, 0, 99,
	} {
		names = append(names, k.String())
	}
	require.Equal(t, []string{"mutex", "fair", "read", "write", "group", "redlock", "Kind(0)", "Kind(99)"}, names)
}

// A teller notes what it is told of, and by whose name.
type teller struct {
	name string
	told *[]string
}

func (o teller) note(what string, of any) {
	*o.told = append(*o.told, fmt.Sprintf("%s %s %v", o.name, what, of))
}
func (o teller) Waiting(ctx context.Context, e relock.WaitEvent) {
	o.note("waiting", []any{e, ctx.Value(o.told)})
}

func (o teller) Acquired(ctx context.Context, e relock.AcquireEvent) {
	o.note("acquired", []any{e, ctx.Value(o.told)})
}

func (o teller) Released(ctx context.Context, e relock.ReleaseEvent) {
	o.note("released", []any{e, ctx.Value(o.told)})
}
func (o teller) Lost(e relock.LostEvent)     { o.note("lost", e) }
func (o teller) Renewed(e relock.RenewEvent) { o.note("renewed", e) }

// tellAll tells o of an event of every sort.
func tellAll(ctx context.Context, o relock.Observer) {
	gone := errors.New("gone")
	o.Waiting(ctx, relock.WaitEvent{Name: "a", Kind: relock.KindFair})
	o.Acquired(ctx, relock.AcquireEvent{Name: "a", Kind: relock.KindFair, Held: true, Wait: time.Second, Contended: true, Token: 7})
	o.Acquired(ctx, relock.AcquireEvent{Name: "a", Kind: relock.KindRead, Contended: true})
	o.Acquired(ctx, relock.AcquireEvent{Name: "a", Kind: relock.KindRead, Err: gone})
	o.Released(ctx, relock.ReleaseEvent{Name: "a", Kind: relock.KindFair, Held: time.Minute})
	o.Released(ctx, relock.ReleaseEvent{Name: "a", Kind: relock.KindFair, Held: time.Minute, Err: gone})
	o.Renewed(relock.RenewEvent{Holds: 3, Duration: time.Millisecond})
	o.Renewed(relock.RenewEvent{Holds: 3, Duration: time.Millisecond, Err: gone})
	o.Lost(relock.LostEvent{Name: "a", Kind: relock.KindGroup, Held: time.Hour, Cause: gone})
}

func TestObserversTellsEachInOrder(t *testing.T) {
	var each, all []string
	ctx := context.WithValue(kit.Background, &each, "found")
	tellAll(ctx, teller{"x", &each})
	require.Len(t, each, 9)
	ctx = context.WithValue(kit.Background, &all, "found")
	tellAll(ctx, relock.Observers(teller{"x", &all}, nil, teller{"y", &all}))
	require.Len(t, all, 18)
	for i, of := range each {
		require.Equal(t, of, all[2*i])
		require.Equal(t, "y"+of[1:], all[2*i+1])
	}
	all = nil
	tellAll(ctx, relock.Observers(teller{"x", &all}))
	require.Equal(t, each, all)
	tellAll(ctx, relock.Observers())
	require.Equal(t, each, all)
}

func TestSlogObserverLogsByLevel(t *testing.T) {
	const (
		lost   = "ERROR relock: lost lock=a kind=group held=1h0m0s cause=gone\n"
		failed = "WARN relock: not renewed holds=3 took=1ms error=gone\n"
	)
	for level, want := range map[slog.Level]string{
		slog.LevelError + 1: "",
		slog.LevelError:     lost,
		slog.LevelInfo:      failed + lost,
		slog.LevelDebug: `DEBUG relock: waiting lock=a kind=fair
DEBUG relock: acquired lock=a kind=fair wait=1s contended=true handoff=false token=7
DEBUG relock: taken lock=a kind=read wait=0s contended=true
DEBUG relock: not acquired lock=a kind=read wait=0s contended=false error=gone
DEBUG relock: released lock=a kind=fair held=1m0s
DEBUG relock: released lock=a kind=fair held=1m0s error=gone
DEBUG relock: renewed holds=3 took=1ms
` + failed + lost,
	} {
		out := new(bytes.Buffer)
		tellAll(kit.Background, relock.SlogObserver(slog.New(textHandler(out, level))))
		require.Equal(t, want, out.String(), level)
	}
}

// textHandler writes level, message and attributes.
func textHandler(out *bytes.Buffer, level slog.Level) slog.Handler {
	return plainText{slog.NewTextHandler(nil, &slog.HandlerOptions{Level: level}), out}
}

type plainText struct {
	slog.Handler
	out *bytes.Buffer
}

func (h plainText) Handle(_ context.Context, r slog.Record) error {
	fmt.Fprint(h.out, r.Level, " ", r.Message)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprint(h.out, " ", a); return true })
	fmt.Fprintln(h.out)
	return nil
}

func TestSlogObserverBuildsNothingWhenOff(t *testing.T) {
	o := relock.SlogObserver(slog.New(textHandler(nil, slog.LevelError+1)))
	gone := errors.New("gone")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		o.Waiting(kit.Background, relock.WaitEvent{Name: "a"})
		o.Acquired(kit.Background, relock.AcquireEvent{Name: "a"})
		o.Released(kit.Background, relock.ReleaseEvent{Name: "a"})
		o.Renewed(relock.RenewEvent{Err: gone})
		o.Lost(relock.LostEvent{Name: "a", Cause: gone})
	}))
}
