package top

import (
	"context"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// Options are what the user chooses at the start.
type Options struct {
	Pattern  string        // of the names to show
	Interval time.Duration // between refreshes
	Steps    int           // of a scan, a second
	Reads    int           // of locks, a second
	Server   string        // what to call the server
}

// A message is what happens: an event of the terminal, or what a command found out.
type message any

// A command asks Redis, or waits. It ends soon after ctx does.
type command func(ctx context.Context) message

// Run shows the table until the user leaves it or ctx ends.
func Run(ctx context.Context, r *locks.Reader, o Options) error {
	screen, err := tcell.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return err
	}
	defer screen.Fini()
	ctx, cancel := context.WithCancel(ctx)
	var commands sync.WaitGroup
	defer commands.Wait()
	defer cancel()
	events := make(chan tcell.Event)
	go screen.ChannelEvents(events, ctx.Done()) // ends with ctx
	found := make(chan message)
	m := newModel(r, o)
	start := func(all []command) {
		for _, c := range all {
			commands.Go(func() {
				select {
				case found <- c(ctx):
				case <-ctx.Done():
				}
			})
		}
	}
	for start(m.begin()); !m.left; m.draw(screen) {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			if !ok {
				return nil
			}
			start(m.update(e))
		case msg := <-found:
			start(m.update(msg))
		}
	}
	return nil
}

// after returns a command that waits before it returns a message.
func after(d time.Duration, msg message) command {
	return func(ctx context.Context) message {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return msg
	}
}
