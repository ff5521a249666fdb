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

// grants returns what the channels begin with on which sessions hear of grants of a lock; the id of
// the session follows.
func (p *Protocol) grants(k *Keys) string {
	if p.PubSub == Sharded {
		return k.grants
	}
	return PrefixSession
}

// numsub returns the command that counts subscribers; none if the server does not know all of them.
func (p *Protocol) numsub() string {
	return [...]string{Plainly: "numsub", ClusterWide: "", Sharded: "shardnumsub"}[p.PubSub]
}

// Scripts are the scripts that a Protocol sends, each by EVALSHA, and by EVAL if the
// server does not know it. A script may be sent twice with the same arguments without
// changing the outcome; the header of its file says why.
type Scripts struct{ byName map[string]*transport.Script }

// scriptNames are those of the scripts' files: for each kind of lock one for each verb, and those
// that are for all of them.
var scriptNames = [...]string{
	"force", "handoff", "inspect", "mutex_acquire", "mutex_poll", "mutex_release", "permit_acquire", "permit_poll",
	"permit_release", "permit_renew", "raise", "read_acquire", "read_poll", "read_release", "read_renew", "renew",
	"write_acquire", "write_poll", "write_release",
}

// All returns the scripts in order of their names.
func (s *Scripts) All() (all []*transport.Script) {
	for _, name := range scriptNames {
		all = append(all, s.byName[name])
	}
	return all
}

// LoadScripts assembles the scripts from files, a directory that has one file for each script and
// those that scripts need.
func LoadScripts(files fs.FS) (*Scripts, error) {
	s := &Scripts{byName: make(map[string]*transport.Script)}
	for _, name := range scriptNames {
		text, err := assemble(files, name+".lua")
		if err != nil {
			return nil, fmt.Errorf("script: %s.lua: %w", name, err)
		}
		s.byName[name] = &transport.Script{Name: name, Text: text}
	}
	return s, nil
}

// undeclared is the first line of a script that uses keys beside those that it is given, because
// only what it finds in these tells their names: those of readers that are let in together.
// Dragonfly reads the line; to other servers it is a comment.
const undeclared = "--!df flags=allow-undeclared-keys\n"

// needs begins a line of a script that stands for other files, whose names follow.
const needs = "-- needs: "

// assemble returns the text of a script as it is sent: the file with those that it needs in their
// places, without lines that are empty or comments.
func assemble(files fs.FS, file string) (string, error) {
	content, err := fs.ReadFile(files, file)
	if err != nil {
		return "", err
	}
	rest, flagged := strings.CutPrefix(string(content), undeclared)
	var text strings.Builder
	if flagged {
		text.WriteString(undeclared)
	}
	for line := range strings.Lines(rest) {
		names, needed := strings.CutPrefix(strings.TrimSpace(line), needs)
		if !needed {
			text.WriteString(code(line))
			continue
		}
		for name := range strings.SplitSeq(names, ", ") {
			part, err := fs.ReadFile(files, name+".lua")
			if err != nil {
				return "", err
			}
			for line := range strings.Lines(string(part)) {
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
