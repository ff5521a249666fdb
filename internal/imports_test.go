// Package internal_test checks which package of the module imports which.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/relock-go/relock"

// allowed lists, for each package of this module, the packages of the module that it may
// import; tests are not counted. The packages are in layers, the lowest first, and a package
// imports only packages above it in this table.
var allowed = []struct {
	pkg     string
	imports []string
}{
	// Know nothing of the module.
	{"internal/timing", nil},
	{"internal/clock", nil},
	{"internal/lockerr", nil},
	{"internal/local", nil},
	{"internal/event", nil},
	{"internal/fips", nil},
	{"internal/redistest", []string{"internal/fips"}}, // for tests only: nothing below may import it
	{"internal/snippets", nil},                        // for tests only
	{"internal/memredis", []string{"internal/fips"}},  // only relocktest imports it

	// Redis, without locks.
	{"internal/transport", []string{"internal/lockerr", "internal/timing"}},
	{"internal/pubsub", []string{"internal/clock", "internal/timing", "internal/transport"}},

	// What a lock is in Redis.
	{"internal/wire", []string{"internal/lockerr", "internal/transport"}},
	{"internal/lease", []string{"internal/clock", "internal/local", "internal/lockerr", "internal/timing", "internal/transport", "internal/wire"}},
	{"internal/queue", []string{
		"internal/clock", "internal/lease", "internal/pubsub", "internal/timing", "internal/transport", "internal/wire",
	}},

	// The locks.
	{"internal/acquire", []string{
		"internal/clock", "internal/event", "internal/lease", "internal/local", "internal/lockerr", "internal/queue",
		"internal/timing", "internal/transport", "internal/wire",
	}},
	{"internal/session", []string{
		"internal/acquire", "internal/clock", "internal/event", "internal/lease", "internal/lockerr", "internal/pubsub",
		"internal/queue", "internal/timing", "internal/transport", "internal/wire",
	}},
	{"internal/quorum", []string{
		"internal/acquire", "internal/event", "internal/local", "internal/lockerr", "internal/timing", "internal/transport",
		"internal/wire",
	}},
	{"internal/multilock", []string{
		"internal/acquire", "internal/event", "internal/local", "internal/lockerr", "internal/timing", "internal/transport",
	}},

	// The public API, and its users.
	{".", []string{
		"internal/acquire", "internal/event", "internal/local", "internal/lockerr", "internal/multilock",
		"internal/quorum", "internal/session", "internal/wire",
	}},
	{"relocktest", []string{".", "internal/memredis"}},
	{"examples/internal/demo", nil},
	{"examples/cron", []string{".", "examples/internal/demo"}},
	{"examples/flashsale", []string{".", "examples/internal/demo"}},
	{"examples/handoff", []string{".", "examples/internal/demo"}},
	{"examples/orders", []string{".", "examples/internal/demo"}},
	{"examples/leader", []string{".", "examples/internal/demo"}},
	{"examples/recipes", []string{"."}},
	{"examples/setnx", nil},
	{"adapters/internal/demo", []string{"."}}, // for the examples of the adapters, which are modules of their own
	{"test/mutants", nil},
	{"test/release", nil},
	{"test/spec", nil},
	{"internal/peek", []string{".", "internal/acquire", "internal/lease", "internal/local", "internal/pubsub", "internal/quorum", "internal/session", "internal/wire"}}, // for tests
	{"internal/kit", []string{".", "internal/peek", "internal/redistest"}},                                                                                              // for the tests of the public API
}

// TestImportsGoDownOnly fails on an import that the table does not allow.
func TestImportsGoDownOnly(t *testing.T) {
	t.Parallel()
	table := make(map[string][]string)
	for _, row := range allowed {
		for _, imp := range row.imports {
			if _, above := table[imp]; !above {
				t.Errorf("the table lets %s import %s, which is not above it", row.pkg, imp)
			}
		}
		table[row.pkg] = row.imports
	}
	found := imports(t, "..")
	for pkg, imps := range found {
		if _, ok := table[pkg]; !ok {
			t.Errorf("package %s is not in the table", pkg)
		}
		for _, imp := range imps {
			if !slices.Contains(table[pkg], imp) {
				t.Errorf("%s imports %s, which the table does not allow", pkg, imp)
			}
		}
	}
	for pkg := range table {
		if _, ok := found[pkg]; !ok {
			t.Errorf("the table has %s, which does not exist", pkg)
		}
	}
}

// imports returns the packages of the module below root, each with the packages of the module
// that its files import, other than tests.
func imports(t *testing.T, root string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isModule(path)):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, _ := filepath.Rel(root, filepath.Dir(path))
		pkg := filepath.ToSlash(dir)
		found[pkg] = slices.Concat(found[pkg], nil)
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if inner, ok := strings.CutPrefix(imp, module+"/"); ok {
				found[pkg] = append(found[pkg], inner)
			} else if imp == module {
				found[pkg] = append(found[pkg], ".")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// isModule reports whether dir is a module of its own.
func isModule(dir string) bool {
	match, _ := filepath.Glob(filepath.Join(dir, "go.mod"))
	return len(match) > 0
}
