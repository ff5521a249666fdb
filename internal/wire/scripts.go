package wire

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/relock-go/relock/internal/transport"
)

// PubSub is how the messages of locks are published.
type PubSub int

const (
	Plainly     PubSub = iota // PUBLISH, by a server that knows all subscribers
	ClusterWide               // PUBLISH, by a server that knows its own subscribers
	Sharded                   // SPUBLISH
)

// pubsubNames are what every script knows of its PubSub: how messages are published, how
// subscribers are counted, and whether the server knows all of them.
var pubsubNames = [...]string{
	Plainly:     "local publish, numsub, counted = 'PUBLISH', 'numsub', true\n",
	ClusterWide: "local publish, numsub, counted = 'PUBLISH', 'numsub', false\n",
	Sharded:     "local publish, numsub, counted = 'SPUBLISH', 'shardnumsub', true\n",
}

// Scripts are the scripts that a Protocol sends, each by EVALSHA, and by EVAL if the
// server does not know it. A script may be sent twice with the same arguments without
// changing the outcome; the header of its file says why.
type Scripts struct{ sets [len(pubsubNames)]set }

// set is the scripts for one PubSub, by name.
type set map[string]*transport.Script

// scriptNames are those of the scripts' files. The read and renew_read scripts are for readers,
// permit and release_permit for semaphores, look and the renew scripts for many locks, all others
// for any one lock.
var scriptNames = [...]string{
	"acquire", "force", "handoff", "inspect", "look", "permit", "raise", "read", "release", "release_permit", "release_read",
	"renew", "renew_read",
}

// all returns the scripts in order of their names.
func (s set) all() (all []*transport.Script) {
	for _, name := range scriptNames {
		all = append(all, s[name])
	}
	return all
}

// LoadScripts assembles the scripts from files, a directory that has one file for each
// script and, in lib, those that scripts need.
func LoadScripts(files fs.FS) (*Scripts, error) {
	s := new(Scripts)
	for how := range s.sets {
		s.sets[how] = make(set)
		for _, name := range scriptNames {
			text, err := assemble(files, name+".lua", pubsubNames[how])
			if err != nil {
				return nil, fmt.Errorf("script: %s.lua: %w", name, err)
			}
			s.sets[how][name] = &transport.Script{Name: name, Text: text}
		}
	}
	return s, nil
}

// All returns the scripts of a deployment that is no cluster, in order of their names.
func (s *Scripts) All() []*transport.Script { return s.sets[Plainly].all() }

// undeclared is the first line of a script that uses keys beside those that it is given,
// because only what it finds in these tells their names, or because mostly they do not
// exist. It uses them by pcall where it can do without. Dragonfly reads the line; to other
// servers it is a comment.
const undeclared = "--!df flags=allow-undeclared-keys\n"

// needs begins a line of a script that stands for files of lib, whose names follow.
const needs = "-- needs: "

// assemble returns the text of a script as it is sent: what it knows of pub/sub, then the file with
// those of lib that it needs in their places, without lines that are empty or comments.
func assemble(files fs.FS, file, pubsub string) (string, error) {
	content, err := fs.ReadFile(files, file)
	if err != nil {
		return "", err
	}
	rest, flagged := strings.CutPrefix(string(content), undeclared)
	var text strings.Builder
	if flagged {
		text.WriteString(undeclared)
	}
	text.WriteString(pubsub)
	for line := range strings.Lines(rest) {
		names, needed := strings.CutPrefix(strings.TrimSpace(line), needs)
		if !needed {
			text.WriteString(code(line))
			continue
		}
		for name := range strings.SplitSeq(names, ", ") {
			lib, err := fs.ReadFile(files, "lib/"+name+".lua")
			if err != nil {
				return "", err
			}
			for line := range strings.Lines(string(lib)) {
				text.WriteString(code(line))
			}
		}
	}
	return text.String(), nil
}

// code returns a line, or nothing for one that is empty or a comment.
func code(line string) string {
	if text := strings.TrimSpace(line); text == "" || strings.HasPrefix(text, "--") {
		return ""
	}
	return line
}
