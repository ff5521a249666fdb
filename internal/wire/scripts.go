package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
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

// pubsubFiles has what scripts know of each PubSub, in place of lib/pubsub.lua.
var pubsubFiles = [...]string{Plainly: "pubsub", ClusterWide: "pubsub_cluster", Sharded: "pubsub_shards"}

// Scripts are the scripts that a Protocol sends, each by EVALSHA, and by EVAL if the
// server does not know it. A script may be sent twice with the same arguments without
// changing the outcome; the header of its file says why.
type Scripts struct{ sets [len(pubsubFiles)]set }

// set is the scripts for one PubSub.
type set struct {
	acquire, probe, release, renew *transport.Script // Mutex and FairMutex
	acquireAll, releaseAll         *transport.Script // several Mutexes
	read, write, look              *transport.Script // RWMutex
	releaseRead, releaseWrite      *transport.Script
	renewRead, renewWrite          *transport.Script
	force, inspect, releaseMoving  *transport.Script // any lock

	all []*transport.Script
}

// LoadScripts assembles the scripts from files, a directory that has one file for each
// script and, in lib, those that scripts include. The files must be exactly those that
// are needed.
func LoadScripts(files fs.FS) (*Scripts, error) {
	s := new(Scripts)
	a := assembler{files: files, used: make(map[string]bool)}
	for how := range s.sets {
		a.pubsub = pubsubFiles[how]
		if err := s.sets[how].load(&a); err != nil {
			return nil, err
		}
	}
	if err := a.unused(); err != nil {
		return nil, err
	}
	return s, nil
}

// All returns the scripts of a deployment that is no cluster, in order of their names.
func (s *Scripts) All() []*transport.Script { return s.sets[Plainly].all }

func (s *set) load(a *assembler) error {
	for name, field := range s.byName() {
		text, err := a.assemble(name)
		if err != nil {
			return err
		}
		*field = &transport.Script{Name: name, Text: text}
		s.all = append(s.all, *field)
	}
	slices.SortFunc(s.all, func(a, b *transport.Script) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// byName returns for the name of each script's file the field that it is loaded into.
func (s *set) byName() map[string]**transport.Script {
	return map[string]**transport.Script{
		"acquire": &s.acquire, "probe": &s.probe, "release": &s.release, "renew": &s.renew,
		"acquire_all": &s.acquireAll, "release_all": &s.releaseAll,
		"read": &s.read, "look": &s.look, "release_read": &s.releaseRead, "renew_read": &s.renewRead,
		"write": &s.write, "release_write": &s.releaseWrite, "renew_write": &s.renewWrite,
		"force": &s.force, "inspect": &s.inspect, "release_moving": &s.releaseMoving,
	}
}

// undeclared is the first line of a script that uses keys beside those that it is given,
// because only what it finds in these tells their names, or because mostly they do not
// exist. It uses them by pcall where it can do without. Dragonfly reads the line; to other
// servers it is a comment.
const undeclared = "--!df flags=allow-undeclared-keys\n"

// A line with this includes lib/<name>.lua, unless the lines before it have done so. In a
// block, where it is indented, what it includes belongs to the block.
var includeLine = regexp.MustCompile(`^(\s*)-- include: (\w+)$`)

// assembler makes the texts of scripts from files.
type assembler struct {
	files  fs.FS
	pubsub string          // the file of lib that stands for pubsub.lua
	used   map[string]bool // files
}

// assemble returns the text of a script as it is sent: with what it includes, and without
// lines that are empty or comments.
func (a *assembler) assemble(name string) (string, error) {
	var text strings.Builder
	err := a.add(&text, name+".lua", make(map[string]bool))
	return text.String(), err
}

// add writes a file to the text. included are the files that are in it already, and that
// what follows may use.
func (a *assembler) add(text *strings.Builder, file string, included map[string]bool) error {
	if included[file] {
		return nil
	}
	included[file], a.used[file] = true, true
	content, err := fs.ReadFile(a.files, file)
	if err != nil {
		return fmt.Errorf("script: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		code := strings.TrimSpace(line)
		switch m := includeLine.FindStringSubmatch(strings.TrimRight(line, "\n")); {
		case line == undeclared && text.Len() == 0:
			text.WriteString(line)
		case m != nil:
			scope := included
			if m[1] != "" {
				scope = maps.Clone(included)
			}
			name := m[2]
			if name == "pubsub" {
				name = a.pubsub
			}
			if err := a.add(text, path.Join("lib", name+".lua"), scope); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		case strings.HasPrefix(code, "--!"), strings.HasPrefix(code, "-- include"), strings.Contains(line, "[["):
			return fmt.Errorf("script: %s: cannot assemble the line %q", file, code)
		case code != "" && !strings.HasPrefix(code, "--"):
			text.WriteString(line)
		}
	}
	return nil
}

// unused returns an error if there are files that no script uses.
func (a *assembler) unused() error {
	return fs.WalkDir(a.files, ".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(file) == ".lua" && !a.used[file] {
			err = errors.New("script: " + file + " is not used")
		}
		return err
	})
}
