package transport

import (
	"slices"
	"sync/atomic"

	"github.com/redis/rueidis"
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

// DigestsQuestion returns the command that asks for the digests of the scripts, nil if all are
// known: they depend on nothing but the text.
func DigestsQuestion(scripts []*Script) []string {
	if !slices.ContainsFunc(scripts, func(s *Script) bool { return s.Sha.Load() == nil }) {
		return nil
	}
	words := []string{"EVAL", digestsText, "0"}
	for _, s := range scripts {
		words = append(words, s.Text)
	}
	return words
}

// LearnDigests reads the answer. A digest that the server refuses to compute stays unknown, which
// does no harm.
func LearnDigests(scripts []*Script, answer rueidis.RedisResult) {
	digests, _ := answer.AsStrSlice()
	for i, sha := range digests {
		if i < len(scripts) && len(sha) == 40 {
			scripts[i].Sha.Store(&sha)
		}
	}
}
