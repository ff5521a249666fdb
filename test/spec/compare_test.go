package spec

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
)

// trace has all scripts say what they do, whatever their session.
var trace = sync.OnceFunc(func() { mustSession(func(s *relock.Session) { peek.ChangeScripts(s, Traced) }) })

// mustSession calls f with a session that nobody else uses.
func mustSession(f func(*relock.Session)) {
	dir := mustDir()
	defer os.RemoveAll(dir)
	server, err := redistest.Launch(dir)
	if err != nil {
		return // there is no server to compare with either
	}
	defer server.Close()
	client := mustClient(server)
	defer client.Close()
	s, err := relock.NewSession(context.Background(), client)
	if err != nil {
		panic(err)
	}
	f(s)
	_ = s.Close(context.Background())
}

// A recorder has a deployment, and what its clients say.
type recorder struct {
	t         *testing.T
	servers   func() []*redistest.Server // that have the locks
	newClient func(testing.TB, ...func(*rueidis.ClientOption)) rueidis.Client

	mu   sync.Mutex
	said []Event
}

// ofOne returns the recorder of a single server.
func ofOne(t *testing.T, server *redistest.Server) *recorder {
	trace()
	servers := func() []*redistest.Server { return []*redistest.Server{server} }
	return &recorder{t: t, servers: servers, newClient: server.Client}
}

func (r *recorder) session(opts ...relock.SessionOption) *relock.Session {
	s, err := relock.NewSession(context.Background(), r.newClient(r.t), opts...)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// holds says that a hold is valid until end is called, or until its deadline.
func (r *recorder) holds(s *relock.Session, key string, h *relock.Hold) (end func()) {
	id := peek.HoldID(h)
	say := func(name string, at time.Time) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said = append(r.said, Event{Name: name, At: Time(at.UnixMicro()), Keys: []string{key}, Args: []string{id}})
	}
	now := time.Now()
	if !now.Before(peek.Deadline(s, h)) {
		return func() {}
	}
	say(Begins, now)
	return sync.OnceFunc(func() {
		deadline := peek.Deadline(s, h)
		if now := time.Now(); now.Before(deadline) {
			deadline = now
		}
		say(Ends, deadline)
	})
}

// events returns the trace so far.
func (r *recorder) events() (all []Event) {
	for _, server := range r.servers() {
		some, err := Collect(server.Do)
		require.NoError(r.t, err)
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	r.mu.Lock()
	defer r.mu.Unlock()
	return Merge(all, r.said)
}

// A choice chooses a lock, and returns its name as well.
type choice func(*relock.Session, *rand.Rand) (string, relock.Locker)

// play has goroutines of some sessions lock a few names in many ways, while something happens for
// so long.
func (r *recorder) play(seed uint64, happens func(), lockers ...choice) {
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var sessions []*relock.Session
	for i := range 4 {
		tenure := relock.WithTenure(time.Duration(i%2) * 5 * time.Millisecond)
		sessions = append(sessions, r.session(relock.WithLease(time.Second), tenure))
	}
	for i, s := range sessions {
		for j := range 3 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(10*i+j)))
				for {
					select {
					case <-stop:
						return
					default:
						r.act(s, rnd, lockers[rnd.IntN(len(lockers))])
					}
				}
			})
		}
	}
	happens()
	close(stop)
	wg.Wait()
}

type acquirer interface {
	Acquire(context.Context) (*relock.Hold, error)
	TryAcquire(context.Context) (*relock.Hold, error)
}

func (r *recorder) act(s *relock.Session, rnd *rand.Rand, locker choice) {
	key, l := locker(s, rnd)
	ctx := context.Background()
	if rnd.IntN(5) == 0 {
		c, cancel := context.WithTimeout(ctx, time.Duration(rnd.IntN(20)*int(time.Millisecond)))
		defer cancel()
		ctx = c
	}
	acquire := l.(acquirer).Acquire
	if rnd.IntN(5) == 0 {
		acquire = l.(acquirer).TryAcquire
	}
	h, err := acquire(ctx)
	if err != nil {
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
		return
	}
	end := r.holds(s, key, h)
	defer end()
	if rnd.IntN(400) == 0 {
		time.Sleep(1200 * time.Millisecond) // longer than a lease
	} else {
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
	}
	end()
	if _, mutex := l.(*relock.Mutex); mutex && rnd.IntN(10) == 0 {
		ticket, err := h.Handoff(context.Background(), time.Second)
		if err != nil {
			return
		}
		if rnd.IntN(4) == 0 {
			return // nobody adopts it
		}
		if h, err = s.Adopt(context.Background(), ticket); err != nil {
			return
		}
		end := r.holds(s, key, h)
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
		end()
	}
	_ = h.Unlock(context.Background())
	time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
}

func aMutex(s *relock.Session, rnd *rand.Rand) (string, relock.Locker) {
	var opts []relock.LockOption
	switch rnd.IntN(12) {
	case 0:
		opts = append(opts, relock.WithFixedLease(time.Duration(50+rnd.IntN(300))*time.Millisecond))
	case 1:
		opts = append(opts, relock.WithMinHold(time.Duration(rnd.IntN(5000))*time.Microsecond))
	case 2, 3, 4:
		opts = append(opts, relock.WithKeep(time.Duration(rnd.IntN(50))*time.Millisecond))
	case 5:
		opts = append(opts, relock.WithLease(time.Duration(100+rnd.IntN(300))*time.Millisecond))
	}
	name := string(rune('a' + rnd.IntN(2)))
	if rnd.IntN(3) == 0 {
		return name, s.FairMutex(name, opts...)
	}
	return name, s.Mutex(name, opts...)
}

func aReadWriteLock(s *relock.Session, rnd *rand.Rand) (string, relock.Locker) {
	var opts []relock.LockOption
	switch rnd.IntN(8) {
	case 0:
		opts = append(opts, relock.WithFixedLease(time.Duration(50+rnd.IntN(300))*time.Millisecond))
	case 1:
		opts = append(opts, relock.WithMinHold(time.Duration(rnd.IntN(5000))*time.Microsecond))
	case 2:
		opts = append(opts, relock.WithLease(time.Duration(100+rnd.IntN(300))*time.Millisecond))
	}
	name := string(rune('r' + rnd.IntN(2)))
	if rnd.IntN(3) == 0 {
		return name, s.RWMutex(name, opts...)
	}
	return name, s.RWMutex(name, opts...).RLocker()
}

func aSemaphore(s *relock.Session, rnd *rand.Rand) (string, relock.Locker) {
	var opts []relock.LockOption
	switch rnd.IntN(8) {
	case 0:
		opts = append(opts, relock.WithFixedLease(time.Duration(50+rnd.IntN(300))*time.Millisecond))
	case 1:
		opts = append(opts, relock.WithMinHold(time.Duration(rnd.IntN(5000))*time.Microsecond))
	}
	return "p", s.Semaphore("p", 1+rnd.IntN(3), opts...)
}

// harm has the subscriptions of a server break, and the server stand still, for so long.
func harm(t *testing.T, server *redistest.Server, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(200 * time.Millisecond)
		_, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		require.NoError(t, err)
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, server.Freeze())
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, server.Thaw())
	}
}

// TestRealServersDoWhatTheSpecificationSays has goroutines of four sessions lock in many ways.
func TestRealServersDoWhatTheSpecificationSays(t *testing.T) {
	for i, c := range []struct {
		name   string
		harmed bool
		locks  choice
	}{
		{"Mutex", false, aMutex}, {"Mutex, harmed", true, aMutex}, {"RWMutex", false, aReadWriteLock},
		{"RWMutex, harmed", true, aReadWriteLock}, {"Semaphore", false, aSemaphore}, {"Semaphore, harmed", true, aSemaphore},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t)
			r := ofOne(t, server)
			r.play(uint64(i), func() {
				if c.harmed {
					harm(t, server, *playing)
				} else {
					time.Sleep(*playing)
				}
			}, c.locks)
			rejectsChanges(t, r.accepted(Checker{}))
		})
	}
}

// accepted checks the trace.
func (r *recorder) accepted(c Checker) []Event {
	all := r.events()
	require.NotEmpty(r.t, all, "scripts do not say what they do")
	c.Extra = 25 * Millisecond // a busy machine
	if err := c.Check(all); err != nil {
		r.t.Fatal(err)
	}
	require.Zero(r.t, c.Aside)
	fmt.Printf("%s: %d steps are accepted\n", r.t.Name(), c.Steps)
	return all
}

// TestFailoversOfSentinelDoWhatTheSpecificationSays: a replica that takes over may have heard less
// than its primary has done. Of what it has not heard it has neither the state nor the trace.
func TestFailoversOfSentinelDoWhatTheSpecificationSays(t *testing.T) {
	redistest.Needs(t, redistest.SentinelPace)
	d := redistest.StartSentinel(t)
	trace()
	servers := func() []*redistest.Server { return []*redistest.Server{d.Primary()} }
	r := &recorder{t: t, servers: servers, newClient: d.Client}
	r.play(7, func() {
		time.Sleep(*playing)
		_, err := d.Failover()
		require.NoError(t, err)
		time.Sleep(*playing)
		old := d.Primary()
		old.Kill()
		_, err = d.WaitFailover(old)
		require.NoError(t, err)
		time.Sleep(*playing)
	}, aMutex, aReadWriteLock, aSemaphore)
	r.accepted(Checker{Lossy: true})
}

// TestClustersDoWhatTheSpecificationSays: replicas take over, and slots move while their locks are
// used. That is by the servers' own commands: a slot that is half moved may have the lock at one
// node and its trace, which no script declares, at the other.
func TestClustersDoWhatTheSpecificationSays(t *testing.T) {
	d := redistest.StartCluster(t, 2, 1)
	trace()
	r := &recorder{t: t, servers: d.Masters, newClient: d.Client}
	r.play(8, func() {
		time.Sleep(*playing)
		for _, name := range []string{"a", "r", "p"} {
			if !redistest.Has(t, redistest.OwnMoves) {
				break
			}
			slot := redistest.Slot(name)
			from := d.NodeForSlot(slot)
			to := slices.DeleteFunc(d.Masters(), func(s *redistest.Server) bool { return s == from })[0]
			require.NoError(t, d.MoveSlots(slot, slot, to))
			time.Sleep(*playing / 2)
		}
		for _, m := range d.Masters() {
			require.NoError(t, d.Failover(d.Replica(m)))
			time.Sleep(*playing / 2)
		}
	}, aMutex, aReadWriteLock, aSemaphore)
	r.accepted(Checker{Lossy: true})
}

// playing is how long each of them takes.
var playing = flag.Duration("spec.playing", time.Second, "how long real servers are played with")

// rejectsChanges checks that the trace is rejected if one entry was changed.
func rejectsChanges(t *testing.T, all []Event) {
	rnd := rand.New(rand.NewPCG(1, 2))
	all = all[:min(len(all), 300)]
	changed := 0
	for range 100 {
		i := rnd.IntN(len(all))
		e := all[i]
		var now []Event
		switch acquires, releases := strings.HasSuffix(e.Name, "_acquire"), strings.HasSuffix(e.Name, "_release"); {
		case acquires && number(e.Reply[0]) > 0 && !strings.HasPrefix(e.Name, "read"): // another token
			e.Reply = slices.Clone(e.Reply)
			e.Reply[0] = fmt.Sprint(number(e.Reply[0]) + 1)
			now = slices.Concat(all[:i], []Event{e}, all[i+1:])
		case acquires && number(e.Reply[0]) < 0 && number(e.Reply[1]) > 0: // another score
			e.Reply = slices.Clone(e.Reply)
			e.Reply[1] = fmt.Sprint(number(e.Reply[1]) + 1)
			now = slices.Concat(all[:i], []Event{e}, all[i+1:])
		case releases && len(e.Published) > 0 && !strings.HasPrefix(e.Published[0].Text, "poll"): // one message less
			e.Published = e.Published[1:]
			now = slices.Concat(all[:i], []Event{e}, all[i+1:])
		case releases && len(e.Published) > 0: // a message to another
			e.Published = slices.Clone(e.Published)
			e.Published[0].Text += "0"
			now = slices.Concat(all[:i], []Event{e}, all[i+1:])
		case e.Name == Ends && i+1 < len(all) && strings.HasSuffix(all[i+1].Name, "release") && all[i+1].Args[0] == e.Args[0]:
			now = slices.Concat(all[:i], all[i+1:]) // a client that releases what it is still sure of
		default:
			continue
		}
		changed++
		var c Checker
		if c.Check(now) == nil {
			t.Fatalf("a trace with a changed entry is accepted: %v", all[i])
		}
	}
	require.Positive(t, changed)
	fmt.Println("   ", changed, "traces with one changed entry are rejected")
}
