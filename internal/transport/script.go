package transport

import (
	"context"
	"slices"
	"sync/atomic"
)

// EVALSHA names a script by its SHA-1. The server computes it, at the start of the
// first session: a process in FIPS 140-only mode may not. SCRIPT LOAD would need a
// permission of its own; EVAL is needed anyway.

// A Script is Lua for the server.
type Script struct {
	Name string // of its file, without .lua
	Text string
	Sha  atomic.Pointer[string] // what the server calls it; nil until a session has asked
}

// Call returns the command that runs the script, and its argument that stands for the
// script. Without a digest that is EVAL, which is always right and only longer.
func (s *Script) Call() (verb, body string) {
	if sha := s.Sha.Load(); sha != nil {
		return "EVALSHA", *sha
	}
	return "EVAL", s.Text
}

// digestsText returns the digest of each argument.
const digestsText = `
local digests = {}
for i, text in ipairs(ARGV) do digests[i] = redis.sha1hex(text) end
return digests
`

// LearnDigests asks the server for the digests of the scripts, unless all are known:
// they depend on nothing but the text. It returns an error only if there was no answer.
// A digest that the server refuses to compute stays unknown, which does no harm.
func (c *Conn) LearnDigests(ctx context.Context, scripts []*Script) error {
	if !slices.ContainsFunc(scripts, func(s *Script) bool { return s.Sha.Load() == nil }) {
		return nil
	}
	args := []string{"EVAL", digestsText, "0"}
	for _, s := range scripts {
		args = append(args, s.Text)
	}
	digests, err := c.Inquire(ctx, args...).AsStrSlice()
	if _, refused := Code(err); err != nil && !refused {
		return err
	}
	for i, sha := range digests {
		if i < len(scripts) && len(sha) == 40 {
			scripts[i].Sha.Store(&sha)
		}
	}
	return nil
}
