// Flashsale sells a small stock to a large crowd, through several instances of a
// shop's service at once. The stock is kept in Redis and is changed by reading it
// and writing it back, which sells the same item many times over unless a lock keeps
// the instances, and the requests of each, apart. With the lock nothing is oversold;
// -unsafe shows what happens without it.
//
//	go run ./examples/flashsale                        # on a Redis of its own, in memory
//	go run ./examples/flashsale -unsafe
//	go run ./examples/flashsale -redis localhost:6379  # leaves nothing there
//
// How to use the lock is in sale.go. Where all there is to do is to count down, one
// DECR is enough, and no lock is needed.
//
// The exit status is 1 if an item was sold twice, 2 if the sale could not be held,
// and 130 if it was interrupted.
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
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	redis                    string
	unsafe                   bool
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
	}

	st := new(stats)
	res, err := hold(ctx, &o, st, stdout)
	if res != nil {
		res.print(stdout, st)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "flashsale:", err)
		if ctx.Err() != nil {
			return 130
		}
		return 2
	case res.twice > 0:
		fmt.Fprintf(stdout, "\nOVERSOLD: %d orders are for an item that was sold already.\n", res.twice)
		return 1
	}
	return 0
}
