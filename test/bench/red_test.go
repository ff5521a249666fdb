package bench_test

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

const benchNodes = 5

// fanOut sends one command to every server at the same time, and waits for all replies.
func fanOut(n int, send func(i int)) {
	var eg errgroup.Group
	for i := range n - 1 {
		eg.Go(func() error { send(i + 1); return nil })
	}
	send(0)
	_ = eg.Wait()
}

// redlock measures Lock+Unlock of a Redlock against the bare acquire and release on one
// server, all servers up and one of them frozen. On few processors the servers are in
// each other's way; what the same calls take without relock, sent to as many servers at
// the same time, is a second floor.
func (t *table) redlock(b *testing.B, srv *redistest.Server) {
	servers := []*redistest.Server{srv}
	for range benchNodes {
		servers = append(servers, redistest.Start(b))
	}
	frozen := servers[benchNodes]
	lock := newBareLock("floor")
	var bares []*bare
	var up, down []*relock.Session
	for i, at := range servers {
		c := &bare{client: kit.NewClient(b, at)}
		benchCheck(loadScripts(c.client) == nil, "SCRIPT LOAD failed")
		if at != frozen {
			bares = append(bares, c)
			up = append(up, benchSession(b, at))
		}
		if i != 0 {
			down = append(down, benchSession(b, at))
		}
	}
	all, most := relock.NewRedlock(up, "red"), relock.NewRedlock(down, "most")
	lockUnlock(kit.Background, most)
	benchCheck(frozen.Freeze() == nil, "the server does not freeze")
	lockUnlock(kit.Background, most) // waits for it

	bareAll := func(bares []*bare) {
		id := bares[0].newID()
		fanOut(len(bares), func(i int) {
			granted, err := bares[i].acquire(kit.Background, &lock, id)
			benchCheck(err == nil && granted, "bare acquire: %v, %v", granted, err)
		})
		fanOut(len(bares), func(i int) {
			held, err := bares[i].release(kit.Background, &lock, id)
			benchCheck(err == nil && held, "bare release: %v, %v", held, err)
		})
	}
	bare := func(bares []*bare) func() float64 {
		return func() float64 { return nsPerOp(100, func() { bareAll(bares) }) }
	}
	m := inTurns(benchRounds, pairFloor(b, srv), bare(bares), pairs(100, kit.Background, all),
		bare(bares[1:]), pairs(100, kit.Background, most))
	benchCheck(frozen.Thaw() == nil, "the server does not thaw")
	t.addBeside(fmt.Sprintf("Redlock over %d servers", benchNodes), m[2], m[0], m[1], 2.5)
	t.addBeside("Redlock, one of them frozen", m[4], m[0], m[3], 3)
}

// addBeside adds a row like add, and one with the same calls without relock as floor.
func (t *table) addBeside(name string, figure, floor, same, target float64) {
	t.add(name, figure, floor, target, 2)
	t.add("  beside the bare fan-out", figure, same, 1.25, 2)
}

// groups measures Lock+Unlock of a group of Mutexes of one session.
func (t *table) groups(b *testing.B, srv *redistest.Server) {
	const members = 10
	s := benchSession(b, srv)
	var locks []relock.Locker
	for i := range members {
		locks = append(locks, s.Mutex(fmt.Sprint("member-", i)))
	}
	m := inTurns(benchRounds, pairFloor(b, srv), pairs(100, kit.Background, relock.NewGroup(locks...)))
	t.add(fmt.Sprintf("Group of %d Mutexes of one session", members), m[1], m[0], 1.6, 3)
}
