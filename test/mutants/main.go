// Command mutants puts deliberate bugs into relock, one at a time, and tells which test catches
// each. It fails if one is not caught. "make mutants" runs it.
//
// A bug is a file in bugs: a first line that names it, then for each file of the tree that it
// changes a line "--- <file>" with lines of that file, "-" before those to remove, "+" before
// those to add, " " before others. The lines without "+" must stand in the file just so, once; a
// test of this command checks that. Lines "try: <package> <tests>" name tests that are asked
// first, which saves time; <tests> is what -run takes, and may be left out.
//
// No file of the tree is changed: the go command reads the changed ones elsewhere (-overlay). All
// tests of "make test" are asked, without the race detector, and at last the simulation with more
// seeds. A bug in a module below this one, such as cmd/relock, is for that module's tests. A test that
// catches a bug must pass without it. A bug that makes a test hang is caught by its timeout.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

var (
	only   = flag.String("run", "", "only the bugs whose file name matches this regular expression")
	seeds  = flag.Int("seeds", 10000, "seeds of the simulation for what no test catches")
	jobs   = flag.Int("j", 2, "bugs to try at the same time")
	named  = flag.Bool("named", false, "ask only the tests that the bugs name")
	dir    = flag.String("bugs", "test/mutants/bugs", "the directory of the bugs")
	hasty  = flag.Duration("try", 4*time.Minute, "timeout of the tests that a bug names")
	slowly = flag.Duration("all", 20*time.Minute, "timeout of all tests, and of the simulation")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	start := time.Now()
	bugs, err := load(*dir, *only)
	if err == nil && len(bugs) == 0 {
		err = fmt.Errorf("no bug in %s matches %q", *dir, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	caught := table(tryAll(ctx, bugs, &baseline{dir: tmp, binaries: make(map[string]string)}))
	_ = os.RemoveAll(tmp)
	fmt.Printf("\n%d of %d bugs are caught, in %v.\n", caught, len(bugs), time.Since(start).Round(time.Second))
	if caught < len(bugs) {
		os.Exit(1)
	}
}

// load reads the bugs in a directory.
func load(dir, only string) (bugs []*bug, err error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.bug"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".bug")
		if !match.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		b, err := parse(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		bugs = append(bugs, b)
	}
	return bugs, nil
}

// A result tells what caught a bug, or that nothing did.
type result struct {
	*bug
	by     string
	caught bool
	took   time.Duration
}

// tryAll tries all bugs, and reports each when it is done.
func tryAll(ctx context.Context, bugs []*bug, base *baseline) []result {
	results := make([]result, len(bugs))
	var wg sync.WaitGroup
	turn := make(chan struct{}, max(1, *jobs))
	for i, b := range bugs {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			start := time.Now()
			by, err := b.try(ctx, base)
			r := result{bug: b, by: by, caught: err == nil && by != "", took: time.Since(start)}
			switch {
			case ctx.Err() != nil:
				r.by = "interrupted"
			case err != nil:
				r.by = "ERROR: " + err.Error()
			case by == "":
				r.by = "NOT CAUGHT"
			}
			results[i] = r
			fmt.Fprintf(os.Stderr, "%s: %s (%.0f s)\n", b.name, r.by, r.took.Seconds())
		})
	}
	wg.Wait()
	return results
}

// table prints the results, in Markdown, and returns how many bugs were caught.
func table(results []result) (caught int) {
	fmt.Print("| Bug | | Caught by | s |\n|---|---|---|--:|\n")
	for _, r := range results {
		by, _, _ := strings.Cut(r.by, "\n")
		if r.caught {
			caught++
			by = "`" + by + "`"
		}
		fmt.Printf("| `%s` | %s | %s | %.0f |\n", r.name, r.title, by, r.took.Seconds())
	}
	return caught
}
