package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// Whatever somebody publishes, a message grants nothing, or a lock for a grant timeout at most.
func FuzzMessages(f *testing.F) {
	for _, text := range []string{
		"1838939876194304 5000 a", "1838939876194304 +5000 a b", "1838939876194304/3 +71 p", "1 1000 r", "2 1000 r",
		"0 1 a", "-1 1 a", "1 0 a", "1 5001 a", "1 + a", "", " ", "1/ 1 ", "99999999999999999999 1 a",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range wire.Kinds() {
			g, key := Granted(text, k)
			if !g.Granted {
				continue
			}
			if g.Term <= 0 || g.Term > wire.GrantMost || g.Token < 0 || g.Slot < -1 || g.Gone {
				t.Errorf("%v: %q: %+v", k, text, g)
			}
			if !strings.HasSuffix(text, key) || g.Trip != 0 || g.Until != 0 || g.Term%time.Millisecond != 0 {
				t.Errorf("%v: %q grants %q: %+v", k, text, key, g)
			}
		}
	})
}
