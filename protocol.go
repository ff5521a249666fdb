package relock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// protocol sends scripts: one function each, arguments in, typed result out. It
// neither retries nor waits.
//
// Outside a cluster commands are built without their keys being named to rueidis:
// it then sends them all on one connection, in order, instead of on one of several
// at random. So what is sent later is executed later, and a release that follows a
// cancelled acquire cannot overtake it.
type protocol struct {
	client  rueidis.Client
	cluster bool
	publish string // PUBLISH or SPUBLISH, for the channels of locks
}

// batchKeys is how many holds one renewal script takes: the server serves nobody
// else while it runs, about 100 µs.
const batchKeys = 100

func (p *protocol) evalsha(s *script, keys, args []string) rueidis.Completed {
	return p.command("EVALSHA", s.sha, keys, args)
}

func (p *protocol) command(verb, body string, keys, args []string) rueidis.Completed {
	b := p.client.B().Arbitrary(verb, body, smallInt(len(keys)))
	if p.cluster {
		return b.Keys(keys...).Args(args...).Build()
	}
	return b.Args(keys...).Args(args...).Build()
}

func smallInt(n int) string { return strconv.Itoa(n) } // allocates nothing below 100

// eval runs a script.
func (p *protocol) eval(ctx context.Context, s *script, keys, args []string) rueidis.RedisResult {
	r := p.client.Do(ctx, p.evalsha(s, keys, args))
	if re, ok := rueidis.IsRedisErr(r.Error()); ok && re.IsNoScript() {
		r = p.client.Do(ctx, p.command("EVAL", s.text, keys, args))
	}
	return r
}

// replicaError: fewer replicas than wanted have acknowledged a write in time.
type replicaError struct{ got, want int }

func (e *replicaError) Error() string {
	return fmt.Sprintf("%d of %d replicas have acknowledged it in time", e.got, e.want)
}

// evalWait runs a script, and WAIT on the connection that ran it. The write counts
// if the script's result is positive; then a replicaError says that too few replicas
// have it.
func (p *protocol) evalWait(ctx context.Context, s *script, keys, args []string, c *sessionConfig) (int64, error) {
	wait := func() rueidis.Completed {
		cmd := p.client.B().Wait().Numreplicas(int64(c.replicas)).Timeout(c.ackWait.Milliseconds()).Build()
		if p.cluster {
			cmd = cmd.SetSlot(keys[0])
		}
		return cmd
	}
	rs := p.client.DoMulti(ctx, p.evalsha(s, keys, args), wait())
	if re, ok := rueidis.IsRedisErr(rs[0].Error()); ok && re.IsNoScript() {
		rs = p.client.DoMulti(ctx, p.command("EVAL", s.text, keys, args), wait())
	}
	n, err := rs[0].AsInt64()
	if err != nil || n <= 0 {
		return n, err
	}
	acks, err := rs[1].AsInt64()
	if err == nil && int(acks) < c.replicas {
		err = &replicaError{int(acks), c.replicas}
	}
	return n, err
}

// call is one run of a script in a batch.
type call struct {
	*script
	keys, args []string
}

// evalAll runs scripts in one pipeline per node. The results stand in order.
func (p *protocol) evalAll(ctx context.Context, calls []call) []rueidis.RedisResult {
	const most = 1000 // from 2,000 commands on, rueidis takes another connection
	var results []rueidis.RedisResult
	for part := range slices.Chunk(calls, most) {
		cmds := make(rueidis.Commands, len(part))
		for i, c := range part {
			cmds[i] = p.evalsha(c.script, c.keys, c.args)
		}
		rs := p.client.DoMulti(ctx, cmds...)
		for i, c := range part {
			if re, ok := rueidis.IsRedisErr(rs[i].Error()); ok && re.IsNoScript() {
				rs[i] = p.client.Do(ctx, p.command("EVAL", c.text, c.keys, c.args))
			}
		}
		results = append(results, rs...)
	}
	return results
}

// acquire asks for an exclusive lock. It returns a token above 0 if it was granted,
// else the holder's time to live, negative if there is none.
func (p *protocol) acquire(ctx context.Context, k *lockKeys, id, leaseMS string, c *sessionConfig) (token int64, ttl time.Duration, err error) {
	keys := [2]string{k.name, k.fence}
	args := [2]string{id, leaseMS}
	var n int64
	if c.replicas > 0 {
		n, err = p.evalWait(ctx, acquireScript, keys[:], args[:], c)
	} else {
		n, err = p.eval(ctx, acquireScript, keys[:], args[:]).AsInt64()
	}
	switch {
	case err != nil:
		return 0, 0, err
	case n > 0:
		return n, 0, nil
	}
	return 0, time.Duration(-1-n) * time.Millisecond, nil
}

// release ends the hold. It returns how many subscribers were told, -1 if there was
// no such hold.
func (p *protocol) release(ctx context.Context, l *lease) (told int64, err error) {
	keys := [1]string{l.keys.name}
	args := [3]string{l.id, l.keys.channel, p.publish}
	return p.eval(ctx, releaseScript, keys[:], args[:]).AsInt64()
}

// releaseAll ends many holds in one pipeline and returns the error of each.
func (p *protocol) releaseAll(ctx context.Context, ls []*lease) (told []int64, errs []error) {
	calls := make([]call, len(ls))
	for i, l := range ls {
		calls[i] = call{releaseScript, []string{l.keys.name}, []string{l.id, l.keys.channel, p.publish}}
	}
	told, errs = make([]int64, len(ls)), make([]error, len(ls))
	for i, r := range p.evalAll(ctx, calls) {
		told[i], errs[i] = r.AsInt64()
	}
	return told, errs
}

// renewed is what became of one hold in a batch of renewals.
type renewed struct {
	lease *lease
	gone  bool
	err   error
}

// renew starts the leases of holds anew: one script for each batchKeys of them, and
// in a cluster of one slot, all in one pipeline per node.
func (p *protocol) renew(ctx context.Context, ls []*lease, leaseMS string) []renewed {
	var calls []call
	var groups [][]*lease
	for _, slot := range p.bySlot(ls) {
		for group := range slices.Chunk(slot, batchKeys) {
			c := call{renewScript, make([]string, 0, len(group)), make([]string, 1, len(group)+1)}
			c.args[0] = leaseMS
			for _, l := range group {
				c.keys = append(c.keys, l.keys.name)
				c.args = append(c.args, l.id)
			}
			calls = append(calls, c)
			groups = append(groups, group)
		}
	}
	out := make([]renewed, 0, len(ls))
	for i, r := range p.evalAll(ctx, calls) {
		start := len(out)
		gone, err := r.AsIntSlice()
		for _, l := range groups[i] {
			out = append(out, renewed{lease: l, err: err})
		}
		for _, n := range gone {
			out[start+int(n)-1].gone = true
		}
	}
	return out
}

// bySlot groups holds by the slot of their key in a cluster; outside one they are a
// single group.
func (p *protocol) bySlot(ls []*lease) [][]*lease {
	if !p.cluster {
		return [][]*lease{ls}
	}
	slots := make(map[uint16][]*lease)
	for _, l := range ls {
		cmd := p.client.B().Arbitrary("EVALSHA").Keys(l.keys.name).Build()
		slots[cmd.Slot()] = append(slots[cmd.Slot()], l)
	}
	groups := make([][]*lease, 0, len(slots))
	for _, g := range slots {
		groups = append(groups, g)
	}
	return groups
}

// force opens a lock and reports whether it was locked.
func (p *protocol) force(ctx context.Context, name string) (bool, error) {
	n, err := p.eval(ctx, forceScript, []string{name}, []string{
		prefixed(prefixChannel, name), prefixed(prefixRW, name), p.publish, prefixSession, name,
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
