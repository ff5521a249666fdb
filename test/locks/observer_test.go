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

func TestKindsAndModesHaveNames(t *testing.T) {
	var names []string
	for _, k := range []relock.Kind{
		relock.KindMutex, relock.KindFair, relock.KindRead, relock.KindWrite, relock.KindGroup, relock.KindRedlock, 0, 99,
	} {
		names = append(names, k.String())
	}
	for _, m := range []relock.Mode{relock.Unlocked, relock.Exclusive, relock.Shared, 99} {
		names = append(names, m.String())
	}
	require.Equal(t, []string{
		"mutex", "fair", "read", "write", "group", "redlock", "Kind(0)", "Kind(99)", "unlocked", "exclusive", "shared", "unknown",
	}, names)
}

// A teller notes what it is told of, and by whose name.
type teller struct {
	name string
	told *[]string
}

func (o teller) note(of ...any) { *o.told = append(*o.told, fmt.Sprintf("%s %T%v", o.name, of[0], of)) }

func (o teller) Waiting(ctx context.Context, e relock.WaitEvent)     { o.note(e, ctx.Value(o.told)) }
func (o teller) Acquired(ctx context.Context, e relock.AcquireEvent) { o.note(e, ctx.Value(o.told)) }
func (o teller) Released(ctx context.Context, e relock.ReleaseEvent) { o.note(e, ctx.Value(o.told)) }
func (o teller) Lost(e relock.LostEvent)                             { o.note(e) }
func (o teller) Renewed(e relock.RenewEvent)                         { o.note(e) }
func (o teller) Kept(e relock.KeepEvent)                             { o.note(e) }

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
	o.Kept(relock.KeepEvent{Session: "s", Leases: 2})
}

func TestObserversTellsEachInOrder(t *testing.T) {
	var each, all []string
	ctx := context.WithValue(kit.Background, &each, "found")
	tellAll(ctx, teller{"x", &each})
	require.Len(t, each, 10)
	ctx = context.WithValue(kit.Background, &all, "found")
	tellAll(ctx, relock.Observers(teller{"x", &all}, nil, teller{"y", &all}))
	require.Len(t, all, 20)
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
		lost   = `level=ERROR msg="relock: lost" lock=a kind=group held=1h0m0s cause=gone` + "\n"
		failed = `level=WARN msg="relock: not renewed" holds=3 took=1ms error=gone` + "\n"
	)
	for level, want := range map[slog.Level]string{
		slog.LevelError + 1: "",
		slog.LevelError:     lost,
		slog.LevelInfo:      failed + lost,
		slog.LevelDebug: `level=DEBUG msg="relock: waiting" lock=a kind=fair
level=DEBUG msg="relock: acquired" lock=a kind=fair wait=1s contended=true local=false token=7
level=DEBUG msg="relock: taken" lock=a kind=read wait=0s contended=true
level=DEBUG msg="relock: not acquired" lock=a kind=read wait=0s contended=false error=gone
level=DEBUG msg="relock: released" lock=a kind=fair held=1m0s
level=DEBUG msg="relock: released" lock=a kind=fair held=1m0s error=gone
level=DEBUG msg="relock: renewed" holds=3 took=1ms
` + failed + lost + `level=DEBUG msg="relock: kept" leases=2` + "\n",
	} {
		out := new(bytes.Buffer)
		o := relock.SlogObserver(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: untimed})))
		tellAll(kit.Background, o)
		require.Equal(t, want, out.String(), level)
		if want == "" { // nothing is built for a logger that is off
			require.Zero(t, testing.AllocsPerRun(100, func() { o.Acquired(kit.Background, relock.AcquireEvent{Name: "a"}) }))
		}
	}
}

func untimed(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
