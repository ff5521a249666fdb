package memredis

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// FailScripts answers scripts with an error, such as "OOM …" or "LOADING …", instead of running
// them, until allow is called. The first of several counts. NOSCRIPT concerns only scripts that are
// sent as a digest. allow may be called again.
func (s *Server) FailScripts(text string) (allow func()) { return s.FailKey("", text) }

// FailKey is FailScripts for the scripts that are given a key, whatever other keys they are given.
func (s *Server) FailKey(key, text string) (allow func()) {
	r := &failure{text, key}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, r)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, other := range s.failures {
			if other == r {
				s.failures = append(s.failures[:i:i], s.failures[i+1:]...)
				return
			}
		}
	})
}

type failure struct{ text, key string } // without a key it concerns all scripts

// concerns reports whether a script, with these arguments of EVAL or EVALSHA, fails.
func (f *failure) concerns(verb string, args []string) bool {
	if verb != "EVALSHA" && strings.HasPrefix(f.text, "NOSCRIPT") {
		return false
	}
	if f.key == "" || len(args) < 2 {
		return f.key == ""
	}
	n, err := strconv.Atoi(args[1])
	return err == nil && n <= len(args)-2 && slices.Contains(args[2:2+n], f.key)
}

// OnScript has before called before each script that a client sends, and published with each
// message that a script publishes. It must be called before a client connects.
func (s *Server) OnScript(before func(), published func(message string)) {
	s.before, s.published = before, published
}

// OnCommand has f called with each command from now on, of clients and of scripts, in place of an f
// before. A command for which f returns an error's text is answered with that instead.
func (s *Server) OnCommand(f func(verb string, args []string) (refusal string)) { s.command.Store(&f) }

// fail answers a command if it is to fail, and reports whether it has.
func (s *Server) fail(c *server.Peer, verb string, args ...string) bool {
	if f := s.command.Load(); f != nil {
		if text := (*f)(verb, args); text != "" {
			c.WriteError(text)
			return true
		}
	}
	if verb == "PUBLISH" && s.published != nil && len(args) == 2 {
		s.published(args[1])
	}
	if !strings.HasPrefix(verb, "EVAL") {
		return false
	}
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.failures {
		if r.concerns(verb, args) {
			c.WriteError(r.text)
			return true
		}
	}
	return false
}

// FlushScripts makes the server forget its scripts.
func (s *Server) FlushScripts() { s.do("SCRIPT", "FLUSH") }

// Evict removes a key, as a server without memory may.
func (s *Server) Evict(key string) {
	s.tick()
	s.Mini.Del(key)
}

// TTL returns how long a key has to live by the server's clock, 0 if it does not expire. It
// reports false if there is no such key.
func (s *Server) TTL(key string) (left time.Duration, ok bool) {
	s.tick()
	return s.Mini.TTL(key), s.Mini.Exists(key)
}

// Vanish ends the process's part of the network for good, as its death does: what it has sent
// still arrives, nothing reaches it, and it makes no connection. With silent the server does not
// learn of it, as when the machine loses power: its ends of the connections stay open, and its
// subscriptions count.
func (p *Process) Vanish(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for l := range p.links {
		if silent {
			l.client.closed = true
			l.client.in.queue, l.client.in.rest = nil, nil
			l.client.in.signal()
		} else {
			l.client.closeLocked()
		}
	}
	p.changedLocked()
}
