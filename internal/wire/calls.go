package wire

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/transport"
)

// Protocol calls the scripts: one method for each, with typed arguments and results. It is
// safe for concurrent use.
type Protocol struct {
	*transport.Conn
	scripts *Scripts
	guards  Guards

	// Set before the first lock, constant afterwards.
	PubSub   PubSub
	GrantFor time.Duration // that of locks with the session's lease; see GrantOf
}

// NewProtocol returns a protocol for a deployment that is no cluster.
func NewProtocol(c *transport.Conn, scripts *Scripts, grantFor time.Duration) *Protocol {
	return &Protocol{Conn: c, scripts: scripts, GrantFor: grantFor}
}

func (p *Protocol) script(name string) *transport.Script { return p.scripts.byName[name] }

// TryScripts returns commands that tell, if they are sent to a server, whether it runs scripts by
// their text and by digests. One is the script of renewals, for no holds, so that the first renewal
// need not send its text; the other names a script that does not exist: the answer is NOSCRIPT.
func (p *Protocol) TryScripts() (byText, byDigest []string) {
	byText = []string{"EVAL", p.script("renew").Text, "0"}
	return byText, []string{"EVALSHA", strings.Repeat("0", 40), "0"}
}

// Scripts returns those that the protocol uses.
func (p *Protocol) Scripts() []*transport.Script { return p.scripts.All() }

// GrantMost bounds Protocol.GrantFor. A queue that nobody polls for 15 s expires.
const GrantMost = 5 * time.Second

// Raise raises the last token of a lock to at least token, if l holds it there, and reports whether
// it does.
func (p *Protocol) Raise(ctx context.Context, l *Ref, token int64) (held bool, err error) {
	k := l.Keys
	n, err := p.taken(ctx, transport.Call{
		Script: p.script("raise"), Keys: []string{k.Name, k.fence},
		Args: []string{l.ID, strconv.FormatInt(token, 10), Millis(l.Length)},
	})
	return n == 1, k.explain(err)
}

// callBuffer has room for the keys and arguments of a call.
type callBuffer struct {
	keys [5]string
	args [11]string
}

// taken runs a script that acquires, and waits for replicas if configured.
func (p *Protocol) taken(ctx context.Context, c transport.Call) (int64, error) {
	if p.Replicas > 0 {
		n, err := p.EvalWait(ctx, c.Script, c.Keys, c.Args)
		if len(n) == 0 {
			return 0, err
		}
		return n[0], err
	}
	return p.Eval(ctx, c.Script, c.Keys, c.Args).AsInt64()
}

// flag returns an argument that says yes or no.
func flag(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// Release ends a hold. It returns the number of subscribers that were notified, or -1 if there was
// no such hold. An error that is Damage says that the hold has ended all the same.
func (p *Protocol) Release(ctx context.Context, l *Ref) (told int64, err error) {
	var buf callBuffer
	c := p.releasing(&buf, l)
	told, err = p.Eval(ctx, c.Script, c.Keys, c.Args).AsInt64()
	return told, damage(l.Keys, err)
}

// Handoff gives the hold with the id from to another one, for its lease, with a note as [Ask] has.
// It returns the token of that, or of a ticket the time of the server (ms); 0 if from has not the
// lock either, and then the time of the server, since 1970.
func (p *Protocol) Handoff(ctx context.Context, from string, to *Ref, ticket bool, note string) (
	n int64, now time.Duration, err error,
) {
	k, holder := to.Keys, to.fenceID()
	if ticket {
		holder = "-"
	}
	n, err = p.taken(ctx, transport.Call{
		Script: p.script("handoff"), Keys: []string{k.Name, k.fence, k.queue},
		Args: []string{from, to.ID, Millis(to.Length), holder, note, flag(ticket), k.Channel, p.grants(k), p.numsub()},
	})
	return max(n, 0), time.Duration(max(-n, 0)) * time.Millisecond, k.explain(err)
}

// releasing returns the call that ends a hold, or for a call that gave up, its entry in a queue.
func (p *Protocol) releasing(buf *callBuffer, l *Ref) transport.Call {
	return l.Kind.of().release(p, buf, l)
}

// ReleaseAll ends holds in one pipeline. For each it returns what Release does.
func (p *Protocol) ReleaseAll(ctx context.Context, ls []*Ref) (told []int64, errs []error) {
	told, errs = p.all(ctx, len(ls), func(i int) transport.Call { return p.releasing(new(callBuffer), ls[i]) })
	for i, l := range ls {
		errs[i] = damage(l.Keys, errs[i])
	}
	return told, errs
}

// all runs n scripts in one pipeline, and returns their replies.
func (p *Protocol) all(ctx context.Context, n int, call func(i int) transport.Call) (replies []int64, errs []error) {
	calls := make([]transport.Call, n)
	for i := range calls {
		calls[i] = call(i)
	}
	replies, errs = make([]int64, n), make([]error, n)
	for i, r := range p.EvalAll(ctx, calls) {
		replies[i], errs[i] = r.AsInt64()
	}
	return replies, errs
}

// GrantOf returns the grant timeout of a lock with leases of a length.
func GrantOf(length time.Duration) time.Duration { return min(GrantMost, length) }

// Millis formats d as milliseconds for an argument.
func Millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
