package internal_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rooms are the parts of the library with the most lines that each may have, without tests. A room that grows needs a
// reason that is worth a higher number; one that shrinks gets a lower one. The last summand is that of kept locks, and of holders who
// hear that their lock is wanted. What a feature has added stands behind a +:
// the first is Handoff, which needs a way out of the arbiter and one in, two calls, a script, and tickets.
var rooms = []struct {
	most     int
	packages []string
}{
	{1420 + 46 + 45, []string{"."}},
	{1180 + 39 + 125, []string{"internal/arbiter"}},
	{3366 + 195 + 430, []string{"internal/engine", "internal/lease", "internal/queue"}},
	{845 + 89 + 10, []string{"internal/wire"}},
	{1810, []string{"internal/transport", "internal/pubsub"}},
	{468, []string{"internal/multilock"}},
	{772 + 1, []string{"internal/quorum"}},
	{552 + 3 + 6, []string{"internal/lockerr", "internal/peek", "internal/clock", "internal/timing", "internal/event"}},
	{1165 + 27 + 40, []string{"lua", "lua/lib"}},
}

// testLines is how many lines the tests of all modules may have.
const testLines = 31100 + 960 + 100 + 900

func TestRoomsKeepTheirSize(t *testing.T) {
	t.Parallel()
	for _, room := range rooms {
		lines := 0
		for _, dir := range room.packages {
			files, err := filepath.Glob(filepath.Join("..", dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				code := strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go")
				if code || strings.HasSuffix(file, ".lua") {
					lines += linesOf(t, file)
				}
			}
		}
		if lines > room.most {
			t.Errorf("%s: %d lines, at most %d", strings.Join(room.packages, ", "), lines, room.most)
		}
	}
	lines := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			lines += linesOf(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if lines > testLines {
		t.Errorf("tests: %d lines, at most %d", lines, testLines)
	}
}

func linesOf(t *testing.T, file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}
