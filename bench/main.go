package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"
)

func main() {
	if env, ok := os.LookupEnv(workerEnv); ok {
		signal.Ignore(os.Interrupt) // it is the main process that ends workers
		os.Exit(runWorker(env, os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program. It returns the exit status: 0, 1 if something failed that is not
// a peer's fault, or 2 if the arguments are wrong.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	set, err := parse(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errs, "bench:", err)
		return 2
	}
	report, err := measure(ctx, set, errs)
	if report != nil {
		err = errors.Join(err, report.print(out), write(set.md, report.markdown), write(set.svg, report.svg), write(set.herd, report.herds.svg),
			write(set.sweep, report.sweep.svg))
	}
	if err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return 1
	}
	return 0
}

// measure runs the scenarios that are asked for. With an error comes what there was
// before it.
func measure(ctx context.Context, set *settings, progress io.Writer) (*report, error) {
	dir, err := os.MkdirTemp("", "relock-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	srv, err := openServer(dir, set.redis)
	if err != nil {
		return nil, err
	}
	defer srv.close()
	mem, err := newShared(dir)
	if err != nil {
		return nil, err
	}
	defer mem.close()

	var peers []*peer
	for _, p := range allPeers() {
		if matches(set.peers, p.id) {
			peers = append(peers, p)
		}
	}
	b := &bench{set: *set, srv: srv, shared: mem, report: newReport(peers), say: progress, ctx: ctx, addr: srv.addr,
		id: strconv.FormatInt(time.Now().Unix()%(36*36*36*36), 36)}
	if b.report.machine, err = describe(srv, set, peers); err != nil {
		return nil, err
	}
	if err := b.near(); err != nil {
		return b.report, err
	}
	return b.report, b.beyond()
}

// near runs the scenarios with the server nearby.
func (b *bench) near() error {
	b.sizes = b.set.pick(false)
	return b.those("")
}

// beyond runs the scenarios with the proxy in between.
func (b *bench) beyond() error {
	b.sizes = b.set.pick(true)
	b.far = true
	wanted := false
	for _, name := range farNames() {
		wanted = wanted || matches(b.set.scenarios, name)
	}
	if b.set.delay == 0 || !wanted {
		return nil
	}
	proxy, addr, err := startProxy(b.srv.addr, b.set.delay)
	if err != nil {
		return err
	}
	defer proxy.end()
	direct, err := roundTrip(b.srv.addr)
	if err != nil {
		return err
	}
	delayed, err := roundTrip(addr)
	if err != nil {
		return err
	}
	b.report.machine = append(b.report.machine, fmt.Sprintf(
		"PING, p50: %s, by way of the proxy %s", formatTime(float64(direct)), formatTime(float64(delayed))))
	b.addr = addr
	return b.those(farPrefix)
}

func (b *bench) those(prefix string) error {
	for _, s := range scenarios {
		if !matches(b.set.scenarios, prefix+s.name) {
			continue
		}
		start := time.Now()
		if err := s.run(b); err != nil {
			return fmt.Errorf("%s%s: %w", prefix, s.name, err)
		}
		if err := b.srv.clear(); err != nil {
			return err
		}
		fmt.Fprintf(b.say, "%s%s: %v\n", prefix, s.name, time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// write writes a file, if it has a name.
func write(name string, to func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(to(f), f.Close())
}
