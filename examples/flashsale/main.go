// Flashsale sells a small stock to a large crowd, through several instances of a
// shop's service at once. The stock is kept in Redis and is changed by reading it
// and writing it back, which sells the same item many times over unless a lock keeps
// the instances, and the requests of each, apart. With the lock nothing is oversold;
// -unsafe shows what happens without it.
//
//	go run ./examples/flashsale                        # on a Redis of its own, in memory
//	go run ./examples/flashsale -unsafe
//	go run ./examples/flashsale -freeze                # an instance is frozen beyond its lease
//	go run ./examples/flashsale -redis localhost:6379  # leaves nothing there
//
// With -freeze one more instance, a process of its own, is stopped by SIGSTOP when it has
// read the stock under the lock and is about to write. Its lease ends, the others sell the
// rest, and it goes on by SIGCONT. The sale is held twice: a plain write under the lock is
// made late, and sells an item twice; one by Hold.Eval is refused.
//
// How to use the lock is in sale.go. Where all there is to do is to count down, one
// DECR is enough, and no lock is needed.
//
// The exit status is 1 if an item was sold twice (with -freeze: although Hold.Eval wrote
// it), 2 if the sale could not be held, and 130 if it was interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the first
	if sale := os.Getenv(frozenEnv); sale != "" {
		if err := runFrozen(ctx, sale); err != nil {
			os.Exit(failed(ctx, os.Stderr, err))
		}
		return
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	redis                    string
	unsafe, freeze           bool
	guarded                  bool // write by Hold.Eval
	instances, buyers, stock int
	work                     time.Duration // between reading the stock and writing it
}

// run holds one sale and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("flashsale", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.redis, "redis", "", "`host:port` or redis:// URL of a Redis server (default: one in memory)")
	flags.BoolVar(&o.unsafe, "unsafe", false, "sell without the lock")
	flags.BoolVar(&o.freeze, "freeze", false,
		"freeze one more instance in its sale, once with plain writes and once with Hold.Eval")
	flags.IntVar(&o.instances, "instances", 4, "instances of the service")
	flags.IntVar(&o.buyers, "buyers", 500, "buyers at each instance")
	flags.IntVar(&o.stock, "stock", 1000, "items in stock")
	flags.DurationVar(&o.work, "work", time.Millisecond, "what a sale takes between reading the stock and writing it")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // flags has said why
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "flashsale: unexpected argument %q; see -help\n", flags.Arg(0))
		return 2
	case o.instances < 1 || o.buyers < 1 || o.stock < 1:
		fmt.Fprintln(stderr, "flashsale: -instances, -buyers and -stock must be at least 1")
		return 2
	case o.unsafe && o.freeze:
		fmt.Fprintln(stderr, "flashsale: -freeze is for a sale with the lock; leave -unsafe out")
		return 2
	case o.freeze:
		return freeze(ctx, &o, stdout, stderr)
	}

	st := new(stats)
	res, err := hold(ctx, &o, st, stdout)
	if res != nil {
		res.print(stdout, st)
	}
	if err != nil {
		return failed(ctx, stderr, err)
	}
	return res.status(stdout)
}

// failed says why the sale could not be held, and returns the exit status.
func failed(ctx context.Context, stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, "flashsale:", err)
	if ctx.Err() != nil {
		return 130
	}
	return 2
}
