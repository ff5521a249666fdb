package relock_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
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
	for _, name := range []string{"a", "b"} {
		if err := session.Mutex(name).Lock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := session.Mutex("a").TryLock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("held", m.held.Load(), "missed", m.missed.Load())
	done() // closes the session, with both locks held
	fmt.Println("held", m.held.Load(), "lost", m.lost.Load())

	// Output:
	// held 2 missed 1
	// held 0 lost 2
}

// exampleLogger logs to the output without what differs from run to run.
func exampleLogger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case "time", "wait", "held", "token":
				return slog.Attr{}
			}
			return a
		},
	}))
}

// With a Redis that answers, a logger at level info hears of losses alone.
func ExampleSlogObserver() {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		session, done := newExampleSession(relock.WithObserver(relock.SlogObserver(exampleLogger(level))))
		ctx := context.Background()
		for _, name := range []string{"orders", "report"} {
			err := relock.Do(ctx, session.Mutex(name), func(context.Context) error { return nil })
			if err != nil {
				log.Fatal(err)
			}
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
	// level=DEBUG msg="relock: acquired" lock=orders kind=mutex contended=false handoff=false
	// level=DEBUG msg="relock: released" lock=orders kind=mutex
	// level=DEBUG msg="relock: acquired" lock=report kind=mutex contended=false handoff=false
	// level=DEBUG msg="relock: released" lock=report kind=mutex
	// level=DEBUG msg="relock: acquired" lock=stock kind=read contended=false handoff=false
	// level=ERROR msg="relock: lost" lock=stock kind=read cause="its lease ran out"
}

func ExampleObservers() {
	var m metrics
	logs := relock.SlogObserver(exampleLogger(slog.LevelDebug))
	session, done := newExampleSession(relock.WithObserver(relock.Observers(&m, logs)))
	defer done()
	ctx := context.Background()
	lock := session.FairMutex("lock")
	if err := lock.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("held", m.held.Load())
	if err := lock.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("held", m.held.Load())

	// Output:
	// level=DEBUG msg="relock: acquired" lock=lock kind=fair contended=false handoff=false
	// held 1
	// level=DEBUG msg="relock: released" lock=lock kind=fair
	// held 0
}
