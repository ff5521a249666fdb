package wire

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
)

// CodeLost is the code of the error of a guarded script that did not run: the lock is not the hold's.
const CodeLost = "RELOCKLOST"

// guardText stands before the text of a caller's script, in its first line, so that errors tell the
// caller's lines. The lock and the hold id come before the caller's keys and arguments.
const guardText = `if not (%) then return redis.error_reply('` + CodeLost + ` the lock is not held') end ` +
	`table.remove(KEYS, 1) table.remove(ARGV, 1) `

// guarded returns the text of a script that runs only if holds, a Lua expression, is true.
func guarded(holds, script string) string {
	first := "" // a line that tells the server which Lua it is, or flags
	if strings.HasPrefix(script, "#!") || strings.HasPrefix(script, "--!") {
		var rest string
		first, rest, _ = strings.Cut(script, "\n")
		first, script = first+"\n", rest
	}
	return first + strings.Replace(guardText, "%", holds, 1) + script
}

// Guards are the guarded scripts of a session's callers, by their text. It is safe for concurrent
// use.
type Guards struct {
	mu    sync.Mutex
	known map[[2]string]*guard // by what is asked, and the caller's text; guarded by mu
}

type guard struct {
	transport.Script
	runs atomic.Bool // a server has run it
}

// guardsMost bounds Guards: more are of a program that makes new texts, where arguments would do.
const guardsMost = 1000

func (g *Guards) of(holds, script string) *guard {
	key := [2]string{holds, script}
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.known[key]; s != nil {
		return s
	}
	if g.known == nil || len(g.known) >= guardsMost {
		g.known = make(map[[2]string]*guard)
	}
	s := &guard{Script: transport.Script{Name: "guarded", Text: guarded(holds, script)}}
	g.known[key] = s
	return s
}

// Guarded runs a script of a caller if l has its lock at that moment, else its error has CodeLost.
// A text that is sent again is called by its digest.
func (p *Protocol) Guarded(ctx context.Context, l *Ref, script string, keys, args []string) rueidis.RedisResult {
	s := p.guards.of(l.Kind.of().holds(), script)
	if s.runs.Load() && s.Sha.Load() == nil {
		if digests := transport.DigestsQuestion([]*transport.Script{&s.Script}); digests != nil {
			if rs, err := p.Inquire(ctx, digests); err == nil {
				transport.LearnDigests([]*transport.Script{&s.Script}, rs[0])
			}
		}
	}
	r := p.EvalOnce(ctx, &s.Script, append([]string{l.Keys.Name}, keys...), append([]string{l.ID}, args...))
	if err := r.Error(); err == nil || rueidis.IsRedisNil(err) {
		s.runs.Store(true)
	}
	return r
}

// InOtherSlot returns the first of keys that is in another slot of a cluster than the lock.
func (p *Protocol) InOtherSlot(l *Ref, keys []string) (key string, ok bool) {
	for _, key := range keys {
		if p.Slot(key) != p.Slot(l.Keys.Name) {
			return key, true
		}
	}
	return "", false
}
