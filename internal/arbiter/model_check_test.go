package arbiter_test

import (
	"slices"

	"github.com/relock-go/relock/internal/arbiter"
)

// check compares what can be seen of the tables with the model, and the holds with Redis.
func (m *model) check() {
	var writer *held
	for _, p := range m.processes {
		p.note()
		p.check()
		if h := p.live(nil, write); h != nil && p.certain(h.Lease()) && !m.redis.gone[h.Lease()] {
			if writer != nil || m.redis.writer != h.Lease() {
				m.r.Fatal("two writers, or one whose lease was released")
			}
			writer = h
		}
	}
	for _, p := range m.processes {
		for _, h := range p.holds {
			if h.lost || h.Side() == write || !p.certain(h.Lease()) {
				continue
			}
			if !m.redis.readers[h.Lease()] {
				m.r.Fatal("a reader's lease was released")
			}
			if writer != nil && h.Owner != writer.Owner {
				m.r.Fatal("a reader beside a writer")
			}
		}
	}
}

func (p *process) check() {
	r := p.m.r
	for _, h := range p.holds {
		if n := p.handles[write][0].Awaited(h.hold); n != h.count {
			r.Fatalf("a hold awaits %d unlocks, want %d", n, h.count)
		}
		if h.State() == arbiter.Ended || !h.tells() {
			r.Fatal("a hold has ended before its last unlock, or a loss is not told once")
		}
		if h.lost != (h.Cause() != nil) {
			r.Fatal("a loss without a cause, or a cause without a loss")
		}
	}
	writer := p.live(nil, write)
	if !is(p.Lookup("a"), writer) {
		r.Fatal("Lookup finds another hold")
	}
	for _, side := range []arbiter.Side{write, read} {
		q, c, held := p.queue(side), p.contender(side), writer != nil || p.releasing != nil
		if !p.m.open && p.Waiting("a", side) != len(q) {
			r.Fatal("another number of calls waits")
		}
		if busy := c != nil || side == write && held; (p.m.open || !busy) && slices.ContainsFunc(q, p.eligible) {
			r.Fatal("a call waits for nothing")
		}
		b, refused := p.Blocked(p.handles[side][0]), c != nil && c.refused
		held = held || side == write && p.live(nil, read) != nil
		if b.Held != held || !p.m.open && b.Refused != refused {
			r.Fatalf("a call is blocked by %+v", b)
		}
		for _, v := range p.handles[side] {
			p.checkHandle(v)
		}
	}
}

func (p *process) checkHandle(v *handle) {
	if took := p.took[v]; len(took) > 0 && v.Latest() != took[len(took)-1] {
		p.m.r.Fatal("the latest hold of a handle is another one")
	}
	if !is(v.Held(), p.taken(v, func(h *held) bool { return !h.lost })) {
		p.m.r.Fatal("the latest hold of a handle that is live is another one")
	}
	for _, o := range p.owners {
		o = p.ownerOf(v, o)
		if !is(p.Newest(v, o), p.newest(o, v.Side())) || v.MustUnlockFirst(o) != p.mustUnlock(o) {
			p.m.r.Fatal("an owner has another hold, or must unlock another one first")
		}
		lost := slices.DeleteFunc(slices.Clone(p.holds), func(h *held) bool { return !h.lost || h.Owner != o })
		if o.Lost() != len(lost) {
			p.m.r.Fatalf("an owner keeps %d lost holds, want %d", o.Lost(), len(lost))
		}
	}
}

// is reports whether h is the hold that the model has, if any.
func is(h *hold, want *held) bool { return want == nil && h == nil || want != nil && want.hold == h }

// tells reports whether who waits for the end of h was told of it, once.
func (h *held) tells() bool {
	select {
	case <-h.done:
		return slices.Equal(h.told, []arbiter.State{h.State()}) && h.State() != arbiter.Live
	default:
		return h.told == nil && h.State() == arbiter.Live
	}
}
