package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
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

// pubsubFiles are the files of lib with what scripts know of each PubSub. Scripts include the first.
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
	force, inspect                 *transport.Script // any lock

	all []*transport.Script
}

// LoadScripts assembles the scripts from files, a directory that has one file for each
// script and, in lib, those that scripts include. The files must be exactly those that
// are needed.
func LoadScripts(files fs.FS) (*Scripts, error) {
	a := assembler{files: files, used: make(map[string]bool)}
	var known [len(pubsubFiles)]string
	for how, file := range pubsubFiles {
		var err error
		if known[how], err = a.assemble("lib/" + file); err != nil {
			return nil, err
		}
	}
	s := new(Scripts)
	for name := range s.sets[Plainly].byName() {
		text, err := a.assemble(name)
		if err != nil {
			return nil, err
		}
		for how := range s.sets {
			script := &transport.Script{Name: name, Text: strings.ReplaceAll(text, known[Plainly], known[how])}
			*s.sets[how].byName()[name] = script
			s.sets[how].all = append(s.sets[how].all, script)
		}
	}
	for _, set := range s.sets {
		slices.SortFunc(set.all, func(a, b *transport.Script) int { return strings.Compare(a.Name, b.Name) })
	}
	if err := a.unused(); err != nil {
		return nil, err
	}
	return s, nil
}

// All returns the scripts of a deployment that is no cluster, in order of their names.
func (s *Scripts) All() []*transport.Script { return s.sets[Plainly].all }

// byName returns for the name of each script's file the field that it is loaded into.
func (s *set) byName() map[string]**transport.Script {
	return map[string]**transport.Script{
		"acquire": &s.acquire, "probe": &s.probe, "release": &s.release, "renew": &s.renew,
		"acquire_all": &s.acquireAll, "release_all": &s.releaseAll,
		"read": &s.read, "look": &s.look, "release_read": &s.releaseRead, "renew_read": &s.renewRead,
		"write": &s.write, "release_write": &s.releaseWrite, "renew_write": &s.renewWrite,
		"force": &s.force, "inspect": &s.inspect,
	}
}

// undeclared is the first line of a script that uses keys beside those that it is given,
// because only what it finds in these tells their names, or because mostly they do not
// exist. It uses them by pcall where it can do without. Dragonfly reads the line; to other
// servers it is a comment.
const undeclared = "--!df flags=allow-undeclared-keys\n"

// A line with this and a name includes lib/<name>.lua, unless the lines before it have done so. In
// a block, where it is indented, what it includes belongs to the block.
const include = "-- include: "

// assembler makes the texts of scripts from files.
type assembler struct {
	files fs.FS
	used  map[string]bool // files
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
		switch name, includes := strings.CutPrefix(code, include); {
		case line == undeclared && text.Len() == 0:
			text.WriteString(line)
		case includes && !strings.Contains(name, " "):
			scope := included
			if line[0] != '-' {
				scope = maps.Clone(included)
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
