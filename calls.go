package relock

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// One function for each script: arguments in, typed result out.

// acquire asks for an exclusive lock. It returns a token above 0 if it was granted,
// else the holder's time to live, negative if there is none. A call that does not
// wait leaves no intent.
func (p *protocol) acquire(ctx context.Context, l *lease, leaseMS string, wait bool, c *sessionConfig) (token int64, ttl time.Duration, err error) {
	k := l.keys
	var n int64
	switch {
	case l.kind == write:
		keys := [3]string{k.name, k.fence, k.aux}
		args := [4]string{l.id, leaseMS, k.prefix, intentMS(wait)}
		n, err = p.taken(ctx, writeScript, keys[:], args[:], c)
	default:
		keys := [2]string{k.name, k.fence}
		args := [2]string{l.id, leaseMS}
		n, err = p.taken(ctx, acquireScript, keys[:], args[:], c)
	}
	return granted(n, err)
}

// granted splits the reply of a script that acquires.
func granted(n int64, err error) (token int64, ttl time.Duration, _ error) {
	if err != nil || n > 0 {
		return n, 0, err
	}
	return 0, time.Duration(-1-n) * time.Millisecond, nil
}

// taken runs a script that acquires, and waits for replicas if so configured.
func (p *protocol) taken(ctx context.Context, s *script, keys, args []string, c *sessionConfig) (int64, error) {
	if c.replicas > 0 {
		return p.evalWait(ctx, s, keys, args, c)
	}
	return p.eval(ctx, s, keys, args).AsInt64()
}

// intentValid is how long the intent of a waiting reader or writer is valid; it is
// made anew every third of that. readersTurn bounds how long writers keep back for
// waiting readers after a writer; it ends as soon as those are in. It is longer than a
// round trip: after a downgrade, a reader that misses its turn waits for a writer that
// waits for the one that reads on.
const (
	intentValid = time.Second
	readersTurn = 250 * time.Millisecond
)

func intentMS(wait bool) string {
	if wait {
		return "1000"
	}
	return "0"
}

// acquireAll asks for several plain locks of one slot, all or none. It returns their
// tokens; or, if one is taken, its place and as acquire when it may be free.
func (p *protocol) acquireAll(ctx context.Context, ls []*lease) (tokens []int64, taken int, ttl time.Duration, err error) {
	n := len(ls)
	keys, args := make([]string, 2*n), make([]string, 0, 2*n)
	var length time.Duration // of the lease before
	var ms string
	for i, l := range ls {
		keys[i], keys[n+i] = l.keys.name, l.keys.fence
		if args = append(args, l.id, ms); l.length != length {
			length, ms = l.length, millis(l.length)
			args[2*i+1] = ms
		}
	}
	reply, err := p.eval(ctx, acquireAllScript, keys, args).AsIntSlice()
	switch {
	case err != nil:
		return nil, -1, 0, err
	case reply[0] == 0:
		return reply[1:], -1, 0, nil
	}
	_, ttl, _ = granted(reply[1], nil)
	return nil, int(reply[0]) - 1, ttl, nil
}

// releaseSome ends several plain holds of one slot with one script.
func (p *protocol) releaseSome(ctx context.Context, ls []*lease) (told []int64, err error) {
	keys, args := make([]string, len(ls)), make([]string, 1, 1+2*len(ls))
	args[0] = p.publish
	for i, l := range ls {
		keys[i] = l.keys.name
		args = append(args, l.id, l.keys.channel)
	}
	return p.eval(ctx, releaseAllScript, keys, args).AsIntSlice()
}

// acquireRead asks for the read side. Its reply is readJoin, readAlone, or 0.
func (p *protocol) acquireRead(ctx context.Context, l *lease, leaseMS, writer string, wait bool, c *sessionConfig) (reply int64, ttl time.Duration, err error) {
	k := l.keys
	return granted(p.taken(ctx, readScript, []string{k.name, k.aux, k.timeout(l.id)},
		[]string{l.id, leaseMS, writer, intentMS(wait), k.prefix}, c))
}

const (
	readJoin  = 1 // held, and more readers may join
	readAlone = 2 // held, but a writer waits
	readGone  = 3 // of confirmRead: the hold is gone
)

// confirmRead asks whether more readers may join a read hold; by is the lease of the
// reader that asks for them. Its reply is readJoin, readAlone, readGone, or 0.
func (p *protocol) confirmRead(ctx context.Context, l, by *lease, wait bool) (reply int64, ttl time.Duration, err error) {
	k := l.keys
	return granted(p.eval(ctx, confirmScript, []string{k.name, k.aux},
		[]string{l.id, by.id, intentMS(wait)}).AsInt64())
}

// release ends the hold. It returns how many subscribers were told, -1 if there was
// no such hold.
func (p *protocol) release(ctx context.Context, l *lease) (told int64, err error) {
	if l.kind == plain {
		keys := [1]string{l.keys.name}
		args := [3]string{l.id, l.keys.channel, p.publish}
		return p.eval(ctx, releaseScript, keys[:], args[:]).AsInt64()
	}
	c := p.releasing(l)
	return p.eval(ctx, c.script, c.keys, c.args).AsInt64()
}

// releasing returns the call that ends the hold, or the place in a queue, or the
// intent of one that gives up.
func (p *protocol) releasing(l *lease) call {
	k := l.keys
	switch l.kind {
	case fair:
		return call{leaveScript, []string{k.name, k.fence, k.aux},
			[]string{l.id, k.channel, p.publish, millis(p.claim), k.prefix, p.counted}}
	case write:
		return call{releaseWriteScript, []string{k.name, k.aux},
			[]string{l.id, k.channel, p.publish, millis(readersTurn), k.prefix}}
	case read:
		return call{releaseReadScript, []string{k.name, k.timeout(l.id), k.aux},
			[]string{l.id, k.channel, p.publish, k.prefix}}
	default:
		return call{releaseScript, []string{k.name}, []string{l.id, k.channel, p.publish}}
	}
}

// releaseAll ends many holds in one pipeline and returns the error of each.
func (p *protocol) releaseAll(ctx context.Context, ls []*lease) (told []int64, errs []error) {
	calls := make([]call, len(ls))
	for i, l := range ls {
		calls[i] = p.releasing(l)
	}
	told, errs = make([]int64, len(ls)), make([]error, len(ls))
	for i, r := range p.evalAll(ctx, calls) {
		told[i], errs[i] = r.AsInt64()
	}
	return told, errs
}

// slot returns the slot of a key in a cluster, and 0 outside one.
func (p *protocol) slot(key string) uint16 {
	if !p.cluster {
		return 0
	}
	return slotOf(key)
}

// enter takes a fair lock, or queues for it if so asked.
func (p *protocol) enter(ctx context.Context, l *lease, leaseMS string, queue bool, c *sessionConfig) (token int64, ttl time.Duration, err error) {
	k := l.keys
	return granted(p.taken(ctx, enterScript, []string{k.name, k.fence, k.aux}, []string{
		l.id, leaseMS, map[bool]string{false: "0", true: "1"}[queue],
		millis(queueValid), millis(p.claim), k.prefix, p.publish, p.counted,
	}, c))
}

// look looks after waiters in fair queues, batchKeys of a slot at a time, and returns
// for each what enter would.
func (p *protocol) look(ctx context.Context, ls []*lease) (replies []int64, errs []error) {
	replies, errs = make([]int64, len(ls)), make([]error, len(ls))
	groups := make(map[uint16][]int)
	for i, l := range ls {
		slot := p.slot(l.keys.name)
		groups[slot] = append(groups[slot], i)
	}
	var calls []call
	var batches [][]int
	for _, group := range groups {
		for batch := range slices.Chunk(group, batchKeys) {
			c := call{script: lookScript, args: []string{millis(queueValid), millis(p.claim), p.publish, p.counted}}
			for _, i := range batch {
				l, k := ls[i], ls[i].keys
				c.keys = append(c.keys, k.name, k.fence, k.aux)
				c.args = append(c.args, l.id, millis(l.length), k.prefix)
			}
			calls = append(calls, c)
			batches = append(batches, batch)
		}
	}
	for i, r := range p.evalAll(ctx, calls) {
		ns, err := r.AsIntSlice()
		for j, at := range batches[i] {
			if errs[at] = err; err == nil {
				replies[at] = ns[j]
			}
		}
	}
	return replies, errs
}

// force opens a lock and reports whether it was locked.
func (p *protocol) force(ctx context.Context, name string) (bool, error) {
	k := newLockKeys(fair, name)
	n, err := p.eval(ctx, forceScript, []string{name, k.fence, k.aux}, []string{
		k.channel, prefixed(prefixRW, name), p.publish, prefixSession, name, millis(p.claim), k.prefix, p.counted,
	}).AsInt64()
	return n == 1, err
}

// inspected is the raw state of a lock.
type inspected struct {
	ttl     int64 // ms; -1 none, -2 not locked
	waiters int
	fields  map[string]int
}

func (p *protocol) inspect(ctx context.Context, name string) (inspected, error) {
	rs, err := p.eval(ctx, inspectScript, []string{name, prefixed(prefixQueue, name)}, nil).ToArray()
	if err != nil {
		return inspected{}, err
	}
	var in inspected
	in.ttl, _ = rs[0].AsInt64()
	waiters, _ := rs[1].AsInt64()
	in.waiters = int(waiters)
	in.fields = make(map[string]int, len(rs)/2)
	for i := 2; i+1 < len(rs); i += 2 {
		field, _ := rs[i].ToString()
		value, _ := rs[i+1].ToString()
		in.fields[field], _ = strconv.Atoi(value) // a value that is no number is the mode
		if field == "mode" && value == "read" {
			in.fields[field] = 1
		}
	}
	return in, nil
}
