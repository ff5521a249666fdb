package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

func main() {
	if env, ok := os.LookupEnv(workerEnv); ok {
		signal.Ignore(os.Interrupt) // the main process ends workers
		runWorker(env, os.Stdin, os.Stdout)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// settings are what the flags say.
type settings struct {
	runs     int
	parallel int
	lease    time.Duration
	asleep   time.Duration
	only     *regexp.Regexp
	seed     uint64
}

func parse(args []string, errs io.Writer) (*settings, error) {
	set := &settings{}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.IntVar(&set.runs, "runs", 10, "runs of each fault with each library")
	flags.IntVar(&set.parallel, "parallel", 8, "runs at a time, each with a server of its own")
	flags.DurationVar(&set.lease, "lease", 30*time.Second, "of every lock")
	flags.DurationVar(&set.asleep, "asleep", 10*time.Second,
		"a waiter sleeps if it still waits when the lock has been free for so long")
	only := flags.String("only", "", "a regular expression: of `fault/library`, such as 'cut/re'")
	flags.Uint64Var(&set.seed, "seed", rand.Uint64(), "of the moments of the faults")
	err := flags.Parse(args)
	if err == nil {
		set.only, err = regexp.Compile(*only)
	}
	if err == nil && (set.runs < 1 || set.parallel < 1 || flags.NArg() > 0) {
		err = errors.New("-runs and -parallel are at least 1, and there are no other arguments")
	}
	return set, err
}

// run is the program. It returns the exit status: 0, 1 if a run failed, 2 if the arguments are
// wrong. What the libraries do makes no difference.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	set, err := parse(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errs, "faults:", err)
		return 2
	}
	t, err := measure(ctx, set, errs)
	if t != nil {
		err = errors.Join(err, t.print(out))
	}
	if err != nil {
		fmt.Fprintln(errs, "faults:", err)
		return 1
	}
	return 0
}

// measure makes all runs: one of every fault with every library, then the next of each.
func measure(ctx context.Context, set *settings, progress io.Writer) (_ *table, err error) {
	t := newTable(set)
	if t.server, err = serverVersion(); err != nil {
		return nil, err
	}
	fmt.Fprintf(progress, "-seed %d\n", set.seed)
	var (
		wg    sync.WaitGroup
		slots = make(chan struct{}, set.parallel)
		mu    sync.Mutex // protects t and errs
		errs  []error
	)
	for i := range set.runs {
		for n, row := range t.rows {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				seed := set.seed + uint64(i*len(t.rows)+n)
				v, again, err := valid(ctx, row.peer, row.fault, set, seed)
				mu.Lock()
				defer mu.Unlock()
				t.repeated += again
				if err != nil {
					err = fmt.Errorf("run %d of %s: %w", i+1, row.name(), err)
					fmt.Fprintln(progress, err)
					errs = append(errs, err)
					return
				}
				fmt.Fprintf(progress, "run %d of %s: %v\n", i+1, row.name(), v)
				row.runs = append(row.runs, v)
			})
		}
	}
	wg.Wait()
	return t, errors.Join(errs...)
}

// valid makes a run, and others until the fault has happened to a holder. It returns how many
// others it made.
func valid(
	ctx context.Context, p *peer, f *fault, set *settings, seed uint64,
) (v verdict, again int, err error) {
	for {
		v, err = oneRun(ctx, p, f, set, seed+uint64(again)<<32)
		if again == 5 || !(errors.Is(err, errNotLanded) || errors.Is(err, errTooBusy)) {
			return v, again, err
		}
		again++
	}
}

func oneRun(ctx context.Context, p *peer, f *fault, set *settings, seed uint64) (verdict, error) {
	dir, err := os.MkdirTemp("", "relock-faults-")
	if err != nil {
		return verdict{}, err
	}
	defer os.RemoveAll(dir)
	s, err := openStage(ctx, dir, p, f, set, seed)
	if err != nil {
		return verdict{}, err
	}
	defer s.close()
	return s.run()
}

// serverVersion returns the name and the version of the server.
func serverVersion() (string, error) {
	dir, err := os.MkdirTemp("", "relock-faults-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	srv, err := redistest.Launch(dir)
	if err != nil {
		return "", err
	}
	defer srv.Close()
	return "Redis " + srv.Info("server")["redis_version"], nil
}
