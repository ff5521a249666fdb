package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// settings are the flags.
type settings struct {
	quick     bool
	scenarios string
	peers     string
	redis     string
	rounds    int
	delay     time.Duration
	md, svg   string
	herd      string
	sweep     string
}

func parse(args []string, errs io.Writer) (*settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errs)
	f.BoolVar(&s.quick, "quick", false, "tiny sizes: show that everything works, and measure nothing")
	f.StringVar(&s.scenarios, "scenario", "*", "scenarios to run, with commas between; * as in file names.\nNames: "+
		strings.Join(scenarioNames(), ", ")+".\nBy way of the proxy: the same with \"far:\" before them")
	f.StringVar(&s.peers, "peers", "*", "libraries to run, likewise. Names: "+strings.Join(peerIDs(), ", "))
	f.StringVar(&s.redis, "redis", "", "`host:port` of the server to use; by default the program starts one")
	f.IntVar(&s.rounds, "rounds", 0, "rounds of each measurement; by default as many as suit the scenario")
	f.DurationVar(&s.delay, "delay", time.Millisecond, "what the proxy adds to every round trip; 0: no scenarios with it")
	f.StringVar(&s.md, "md", "", "`file` to write the table to, as Markdown")
	f.StringVar(&s.svg, "svg", "", "`file` to write the chart to")
	f.StringVar(&s.herd, "herd", "", "`file` to write the chart of the scenario herd to")
	f.StringVar(&s.sweep, "sweep", "", "`file` to write the chart of the scenario locality to")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case s.rounds < 0 || s.delay < 0:
		return nil, errors.New("-rounds and -delay must not be negative")
	}
	return &s, s.check()
}

// check finds names that nothing has.
func (s *settings) check() error {
	for pattern := range strings.SplitSeq(s.scenarios, ",") {
		if !matchesAny(pattern, scenarioNames()) && !matchesAny(pattern, farNames()) {
			return fmt.Errorf("-scenario: no scenario is called %q", pattern)
		}
	}
	for pattern := range strings.SplitSeq(s.peers, ",") {
		if !matchesAny(pattern, peerIDs()) {
			return fmt.Errorf("-peers: no library is called %q", pattern)
		}
	}
	return nil
}

const farPrefix = "far:"

func scenarioNames() (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

func farNames() (names []string) {
	for _, name := range scenarioNames() {
		names = append(names, farPrefix+name)
	}
	return names
}

func peerIDs() (ids []string) {
	for _, p := range allPeers() {
		ids = append(ids, p.id)
	}
	return ids
}

func matchesAny(pattern string, names []string) bool {
	for _, name := range names {
		if matches(pattern, name) {
			return true
		}
	}
	return false
}

// matches reports whether one of the patterns, with commas between, matches a name.
func matches(patterns, name string) bool {
	for pattern := range strings.SplitSeq(patterns, ",") {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}
