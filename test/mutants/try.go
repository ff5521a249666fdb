package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	module     = "github.com/relock-go/relock/"
	simulation = "test/sim"
)

// A failure is what a run of tests found.
type failure struct {
	pkg  string // without that of the module
	test string // the deepest test that failed; empty if the package failed as a whole
	how  string // what else happened: a crash, a timeout, a seed
}

func (f *failure) String() string {
	s := strings.TrimSpace(f.pkg + " " + f.test)
	if f.how != "" {
		s += " (" + f.how + ")"
	}
	return s
}

// try returns what catches the bug, empty if nothing does.
func (b *bug) try(ctx context.Context, base *baseline) (by string, err error) {
	tmp, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	overlay, err := b.overlay(tmp)
	if err != nil {
		return "", err
	}
	var runs []run
	for _, t := range b.first {
		dir, pkg := inModule(t[0])
		selected := strings.Join(t[1:], "")
		runs = append(runs, run{dir, selected, []string{fmt.Sprint("-timeout=", *hasty), pkg, "-run", selected}})
	}
	if all := fmt.Sprint("-timeout=", *slowly); !*named {
		dir, _ := inModule(b.changes[0].file)
		runs = append(runs, run{dir, "", []string{all, "./..."}})
		if _, err := os.Stat(simulation); err == nil && dir == "." {
			runs = append(runs, run{dir, "", []string{all, "./" + simulation, fmt.Sprint("-sim.seeds=", *seeds)}})
		}
	}
	for _, r := range runs {
		clean := litter()
		f, err := r.test(ctx, overlay)
		clean()
		if err != nil {
			return "", err
		}
		if f != nil {
			return f.String(), base.passes(ctx, f, r.selected)
		}
	}
	return "", nil
}

// A run is one call of go test, in the directory of a module. selected is what its -run says.
type run struct {
	dir, selected string
	args          []string
}

// inModule returns the directory of the module that a file or package is in, and its path there.
func inModule(name string) (dir, pkg string) {
	for dir = path.Clean(name); dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	pkg, _ = filepath.Rel(dir, name) // both are below this directory
	return dir, "./" + pkg
}

// litter returns a function that removes what failing tests have left in the tree since: rapid
// stores what failed.
func litter() (clean func()) {
	const what = "internal/*/testdata/rapid"
	before, _ := filepath.Glob(what) // the pattern is good
	return func() {
		after, _ := filepath.Glob(what)
		for _, dir := range after {
			if !slices.Contains(before, dir) {
				_ = os.RemoveAll(dir)
				_ = os.Remove(filepath.Dir(dir)) // if nothing else is in it
			}
		}
	}
}

// A baseline has the tests of the tree as it is, one binary for each package.
type baseline struct {
	dir string

	mu       sync.Mutex // protects the following
	binaries map[string]string
}

// binary returns the binary of the tests of a package.
func (b *baseline) binary(ctx context.Context, pkg string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.binaries[pkg] == "" {
		to := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "-"), filepath.Base(pkg)+".test") // some tests know their name
		dir, rel := inModule(pkg)
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", to, rel)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		b.binaries[pkg] = to
	}
	return b.binaries[pkg], nil
}

// passes returns an error if the test that failed with the bug, or what -run has selected if the
// test is not known, fails without it, too.
func (b *baseline) passes(ctx context.Context, f *failure, selected string) error {
	binary, err := b.binary(ctx, f.pkg)
	if err != nil {
		return err
	}
	args := []string{fmt.Sprint("-test.timeout=", *slowly), "-test.run=" + selected}
	if f.test != "" && f.pkg != simulation { // whose subtests have no names
		var parts []string
		for part := range strings.SplitSeq(f.test, "/") {
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		args[1] = "-test.run=" + strings.Join(parts, "/")
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = f.pkg
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v fails without the bug, too: %w: %s", f, err, out)
	}
	return nil
}

// test returns the first failure, nil if there is none. The overlay is in GOFLAGS since some tests build
// programs.
func (r *run) test(ctx context.Context, overlay string) (*failure, error) {
	flags, err := exec.CommandContext(ctx, "go", "env", "GOFLAGS").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	args := append([]string{"test", "-json", "-failfast", "-vet=off", "-count=1"}, r.args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOFLAGS=%s -overlay=%s", bytes.TrimSpace(flags), overlay))
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f, bad := read(out)
	if bad == nil && f == nil && err != nil {
		bad = fmt.Errorf("go test: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return f, bad
}

// read returns the first failure among the events that go test -json prints, or an error if
// something does not compile.
func read(events []byte) (*failure, error) {
	type event struct{ Action, Package, ImportPath, Test, Output, FailedBuild string }
	var build strings.Builder
	output := make(map[string]*strings.Builder) // by package
	failed := make(map[string][]string)         // tests by package
	for line := range bytes.Lines(events) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch {
		case e.Action == "build-output":
			build.WriteString(e.Output)
		case e.Action == "output":
			if output[e.Package] == nil {
				output[e.Package] = new(strings.Builder)
			}
			output[e.Package].WriteString(e.Output)
			if e.Test != "" && strings.HasPrefix(e.Output, "panic: ") {
				failed[e.Package] = append(failed[e.Package], e.Test)
			}
		case e.Action == "fail" && e.FailedBuild != "":
			return nil, errors.New("it does not compile: " + strings.TrimSpace(build.String()))
		case e.Action == "fail" && e.Test != "":
			failed[e.Package] = append(failed[e.Package], e.Test)
		case e.Action == "fail":
			f := &failure{pkg: path.Clean(strings.TrimPrefix(e.Package+"/", module)), test: deepest(failed[e.Package])}
			if text := output[e.Package]; text != nil {
				f.explain(text.String())
			}
			return f, nil
		}
	}
	return nil, nil
}

// deepest returns the test with the most parents, the first of several.
func deepest(tests []string) string {
	if len(tests) == 0 {
		return ""
	}
	return slices.MaxFunc(tests, func(a, b string) int { return cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")) })
}

var (
	timedOut = regexp.MustCompile(`panic: test timed out after \S+(?:\s+running tests:\s+(\S+))?`)
	seed     = regexp.MustCompile(`seed (\d+)`)
)

// explain finds in the output of a package what the names of the tests that failed do not tell.
func (f *failure) explain(output string) {
	if m := timedOut.FindStringSubmatch(output); m != nil {
		f.how, f.test = "timeout", cmp.Or(m[1], f.test)
		return
	}
	for _, sign := range []struct{ text, how string }{
		{"fatal error: ", "crash"}, {"panic: deadlock", "deadlock"}, {"panic: ", "panic"}, {"found unexpected goroutines", "goroutines are left"},
	} {
		if strings.Contains(output, sign.text) {
			f.how = sign.how
			break
		}
	}
	if m := seed.FindStringSubmatch(output); m != nil && f.pkg == simulation {
		f.how = strings.TrimSpace(m[0] + " " + f.how)
	}
}
