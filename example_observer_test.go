package relock_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

// A metrics is an Observer that counts.
type metrics struct {
	relock.NopObserver              // for the events that do not matter here, and those to come
	missed, held, lost atomic.Int64 // held is a gauge
}

func (m *metrics) Acquired(_ context.Context, e relock.AcquireEvent) {
	switch {
	case e.Held:
		m.held.Add(1)
	case e.Err == nil: // a TryLock
		m.missed.Add(1)
	}
}

func (m *metrics) Released(context.Context, relock.ReleaseEvent) { m.held.Add(-1) }

func (m *metrics) Lost(relock.LostEvent) {
	m.held.Add(-1)
	m.lost.Add(1)
}

func ExampleObserver() {
	var m metrics
	session, done := newExampleSession(relock.WithObserver(&m))
	ctx := context.Background()
	fmt.Println(session.Mutex("a").Lock(ctx), session.Mutex("b").Lock(ctx))
	fmt.Println(session.Mutex("a").TryLock(ctx))
	fmt.Println("held", m.held.Load(), "missed", m.missed.Load())
	done() // closes the session, with both locks held
	fmt.Println("held", m.held.Load(), "lost", m.lost.Load())

	// Output:
	// <nil> <nil>
	// false <nil>
	// held 2 missed 1
	// held 0 lost 2
}

// With a Redis that answers, a logger at level info hears of losses alone. Observers(logs, others)
// has others told as well.
func ExampleSlogObserver() {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if slices.Contains([]string{"time", "wait", "held", "token"}, a.Key) {
				return slog.Attr{} // differs from run to run
			}
			return a
		}}
		logs := relock.SlogObserver(slog.New(slog.NewTextHandler(os.Stdout, options)))
		session, done := newExampleSession(relock.WithObserver(logs))
		ctx := context.Background()
		err := relock.Do(ctx, session.Mutex("orders"), func(context.Context) error { return nil })
		if err != nil {
			log.Fatal(err)
		}
		lock := session.RWMutex("stock", relock.WithFixedLease(20*time.Millisecond))
		if err := lock.RLock(ctx); err != nil {
			log.Fatal(err)
		}
		<-lock.RLocker().Done()
		done()
	}

	// Output:
	// level=ERROR msg="relock: lost" lock=stock kind=read cause="its lease ran out"
	// level=DEBUG msg="relock: acquired" lock=orders kind=mutex contended=false local=false
	// level=DEBUG msg="relock: released" lock=orders kind=mutex
	// level=DEBUG msg="relock: acquired" lock=stock kind=read contended=false local=false
	// level=ERROR msg="relock: lost" lock=stock kind=read cause="its lease ran out"
}
