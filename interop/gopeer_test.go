package interop_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"golang.org/x/sys/unix"
)

// gopher is a process of relock that does what it is told to; see peer.
type gopher struct {
	session *relock.Session
	client  rueidis.Client
	threads map[string]*thread
	out     sync.Mutex // one line at a time
}

// thread does what it is told to in order, as one owner.
type thread struct {
	g      *gopher
	ctx    context.Context
	orders chan []string
	locks  map[string]relock.Locker // by kind and name
}

// goPeer is the role of a helper process of relock.
func goPeer(args []string) {
	client, err := connect(args[0], args[1])
	check(err)
	ms, err := strconv.Atoi(args[2])
	check(err)
	s, err := relock.NewSession(context.Background(), client, relock.WithLease(time.Duration(ms)*time.Millisecond))
	check(err)
	g := &gopher{session: s, client: client, threads: make(map[string]*thread)}
	g.say("ready " + s.ID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Split(in.Text(), " ")
		th := g.threads[words[1]]
		if th == nil {
			th = &thread{g: g, ctx: s.NewContext(context.Background()), orders: make(chan []string, 1000), locks: make(map[string]relock.Locker)}
			g.threads[words[1]] = th
			go th.run()
		}
		th.orders <- words
	}
}

func connect(mode, addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: mode == "single",
	})
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// now returns the host's monotonic clock, which Java's System.nanoTime reads too.
func now() int64 {
	var ts unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	return ts.Nano()
}

func (g *gopher) say(line string) {
	g.out.Lock()
	defer g.out.Unlock()
	fmt.Println(line)
}

func (th *thread) run() {
	for words := range th.orders {
		start := now()
		result, err := th.obey(words[2], words[3:])
		end := now()
		if err != nil {
			result = "error " + err.Error()
		} else {
			result = "ok " + result
		}
		th.g.say(fmt.Sprint(words[0], " ", start, " ", end, " ", result))
	}
}

func (th *thread) obey(command string, args []string) (string, error) {
	s := th.g.session
	kind := args[0]
	name, err := url.QueryUnescape(args[1])
	if err != nil {
		return "", err
	}
	ms := 0
	if len(args) > 2 && command != "hammer" {
		if ms, err = strconv.Atoi(args[2]); err != nil {
			return "", err
		}
	}
	l := th.lock(kind, name)
	switch command {
	case "lock":
		return "true", l.Lock(th.ctx)
	case "lease":
		l = newLock(s, kind, name, relock.WithFixedLease(time.Duration(ms)*time.Millisecond))
		th.locks[kind+" "+name] = l
		return "true", l.Lock(th.ctx)
	case "try":
		if ms == 0 {
			ok, err := l.TryLock(th.ctx)
			return fmt.Sprint(ok), err
		}
		ctx, cancel := context.WithTimeout(th.ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
		err := l.Lock(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return "false", nil
		}
		return "true", err
	case "unlock":
		return "true", l.Unlock(th.ctx)
	case "lost": // waits until the hold ends, and returns why
		<-l.Done()
		return fmt.Sprint(errors.Is(l.Err(), relock.ErrLost)), nil
	case "force":
		was, err := s.ForceUnlock(th.ctx, name)
		return fmt.Sprint(was), err
	case "inspect":
		st, err := s.Inspect(th.ctx, name)
		result := fmt.Sprint(st.Mode, " ", st.TTL.Milliseconds())
		for _, h := range st.Holders {
			result += fmt.Sprint(" ", h.ID, "=", h.Count)
		}
		return result, err
	case "hammer":
		d, err := strconv.Atoi(args[3])
		if err != nil {
			return "", err
		}
		section, err := strconv.Atoi(args[4])
		if err != nil {
			return "", err
		}
		return th.hammer(kind, name, args[2], time.Duration(d)*time.Millisecond, time.Duration(section)*time.Millisecond)
	}
	return "", fmt.Errorf("no command %q", command)
}

// lock returns the thread's value for a lock.
func (th *thread) lock(kind, name string) relock.Locker {
	l := th.locks[kind+" "+name]
	if l == nil {
		l = newLock(th.g.session, kind, name)
		th.locks[kind+" "+name] = l
	}
	return l
}

func newLock(s *relock.Session, kind, name string, opts ...relock.LockOption) relock.Locker {
	switch kind {
	case "fair":
		return s.FairMutex(name, opts...)
	case "read":
		return s.RWMutex(name, opts...).RLocker()
	case "write", "rw":
		return s.RWMutex(name, opts...)
	}
	return s.Mutex(name, opts...) // lock, fenced
}

// hammer does what the hammer of the Java side does.
func (th *thread) hammer(kind, name, counter string, d, section time.Duration) (string, error) {
	exclusive, shared := th.lock(kind, name), th.lock("read", name)
	var writes, reads, torn int
	once := func(i int) (err error) {
		l, write := exclusive, true
		if kind == "read" || kind == "rw" && i%4 != 0 {
			l, write = shared, false
		}
		if err := l.Lock(th.ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.Unlock(th.ctx)) }()
		x, err := th.g.number(counter + ":a")
		if err != nil {
			return err
		}
		y, err := th.g.number(counter + ":b")
		if err != nil {
			return err
		}
		if x != y {
			torn++
		}
		time.Sleep(section)
		if !write {
			reads++
			return nil
		}
		writes++
		return errors.Join(th.g.set(counter+":a", x+1), th.g.set(counter+":b", y+1))
	}
	for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
		if err := once(i); err != nil {
			return "", err
		}
	}
	return fmt.Sprint(writes, " ", reads, " ", torn), nil
}

func (g *gopher) number(key string) (int64, error) {
	n, err := g.client.Do(context.Background(), g.client.B().Get().Key(key).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return n, err
}

func (g *gopher) set(key string, n int64) error {
	return g.client.Do(context.Background(), g.client.B().Set().Key(key).Value(strconv.FormatInt(n, 10)).Build()).Error()
}
