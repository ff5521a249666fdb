package interop_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
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
	client, err := kit.Connect(args[1], func(o *rueidis.ClientOption) { o.ForceSingleClient = args[0] == "single" })
	kit.ChildCheck(err)
	s, err := relock.NewSession(kit.Background, client, relock.WithLease(ms(args[2])))
	kit.ChildCheck(err)
	g := &gopher{session: s, client: client, threads: make(map[string]*thread)}
	g.say("ready " + s.ID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Split(in.Text(), " ")
		th := g.threads[words[1]]
		if th == nil {
			th = &thread{g: g, ctx: s.NewContext(kit.Background), orders: make(chan []string, 1000)}
			th.locks = make(map[string]relock.Locker)
			g.threads[words[1]] = th
			go th.run()
		}
		th.orders <- words
	}
}

// ms reads milliseconds.
func ms(text string) time.Duration {
	d, err := time.ParseDuration(text + "ms")
	kit.ChildCheck(err)
	return d
}

func (g *gopher) say(line string) {
	g.out.Lock()
	defer g.out.Unlock()
	fmt.Println(line)
}

func (th *thread) run() {
	for words := range th.orders {
		start := kit.Monotonic()
		result, err := th.obey(words[2], words[3:])
		end := kit.Monotonic()
		if err != nil {
			result = "error " + err.Error()
		} else {
			result = "ok " + result
		}
		th.g.say(fmt.Sprint(words[0], " ", start, " ", end, " ", result))
	}
}

func (th *thread) obey(command string, args []string) (string, error) {
	s, kind := th.g.session, args[0]
	name, err := url.QueryUnescape(args[1])
	if err != nil {
		return "", err
	}
	l := th.lock(kind, name)
	switch command {
	case "hammer":
		return th.hammer(kind, name, args[2], ms(args[3]), ms(args[4]))
	case "lock":
		return "true", l.Lock(th.ctx)
	case "lease":
		l = newLock(s, kind, name, relock.WithFixedLease(ms(args[2])))
		th.locks[kind+" "+name] = l
		return "true", l.Lock(th.ctx)
	case "try":
		ok, err := l.TryLock(th.ctx)
		return fmt.Sprint(ok), err
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

// halves are the ends of the names of the two counters that are one under the lock.
var halves = []string{":a", ":b"}

// hammer does what the hammer of the Java side does: until a time has passed it has the lock, for as long as a section
// says, and adds to two counters, by reading and then writing.
func (th *thread) hammer(kind, name, counter string, d, section time.Duration) (string, error) {
	exclusive, shared, c := th.lock(kind, name), th.lock("read", name), th.g.client
	var writes, reads, torn int
	once := func(write bool) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			var n [2]int64
			for i, half := range halves {
				n[i], err = c.Do(ctx, c.B().Get().Key(counter+half).Build()).AsInt64()
				if err != nil && !rueidis.IsRedisNil(err) {
					return err
				}
			}
			if n[0] != n[1] {
				torn++
			}
			time.Sleep(section)
			if !write {
				reads++
				return nil
			}
			writes++
			for i, half := range halves {
				err = c.Do(ctx, c.B().Set().Key(counter+half).Value(fmt.Sprint(n[i]+1)).Build()).Error()
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	var err error
	for i, end := 0, time.Now().Add(d); err == nil && time.Now().Before(end); i++ {
		if kind == "read" || kind == "rw" && i%4 != 0 {
			err = relock.Do(kit.Background, shared, once(false))
		} else {
			err = relock.Do(kit.Background, exclusive, once(true))
		}
	}
	return fmt.Sprint(writes, " ", reads, " ", torn), err
}
