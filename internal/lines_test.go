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
// reason that is worth a higher number; one that shrinks gets a lower one. What a feature has added stands behind a +:
// Handoff, which needs a way out of the arbiter and one in, two calls, a script, and tickets (20: what is left of one
// that was cancelled); the tokens of Redlocks, which need a second round and a script; Semaphore, with many holds of a
// name in the arbiter, slots, two scripts and a format; kept locks, and holders who hear that their lock is wanted;
// many holds of a name, which are found by their ids (28); leases that are renewed once messages may have been missed,
// and one source of hold ids (75); a TryLock that waits for the release of what was kept (15), a Group that says that its
// context has ended (2); tokens that outlive a long lease (3).
var rooms = []struct {
	most     int
	packages []string
}{
	{1420 + 46 + 105 + 45, []string{"."}},
	{1180 + 39 + 70 + 126 + 28 + 15, []string{"internal/arbiter"}},
	{3366 + 195 + 13 + 65 + 441 + 20 + 15 + 2 + 14 + 75, []string{"internal/engine", "internal/lease", "internal/queue"}},
	{845 + 88 + 10 + 55 + 11, []string{"internal/wire"}},
	{1810 + 15, []string{"internal/transport", "internal/pubsub"}},
	{468 + 5 + 1 + 2, []string{"internal/multilock"}},
	{772 + 81 + 1, []string{"internal/quorum"}},
	{552 + 3 + 3 + 6, []string{"internal/lockerr", "internal/peek", "internal/clock", "internal/timing", "internal/event"}},
	{1165 + 29 + 25 + 219 + 52 + 4 + 3, []string{"lua", "lua/lib"}},
	{200, []string{"adapters/certmagic"}},
	{200, []string{"adapters/gocron"}},
	{200, []string{"adapters/tusd"}},
}

// testLines is how many lines the tests of all modules may have.
// 52: that docs/model names what exists; 330: trouble at every moment of a handoff; 260: the adapters; 150: kept locks
// that end together, long holds that are wanted, kept locks in the command and in make bench; 40: a Close amid their
// releases, and tests of chance that are made sure; 170: gaps in the subscription of a session; 60: a TryLock amid such
// a release, a Group that has ended; 65: the API of the new types, two bugs of the arbiter that its model finds by chance
const testLines = 31100 + 960 + 100 + 510 + 1200 + 52 + 900 + 330 + 1400 + 40 + 260 + 150 + 20 + 130 + 262 + 70 + 40 + 170 + 60 + 65

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
