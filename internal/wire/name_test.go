package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/redistest"
	"pgregory.net/rapid"
)

func TestNamesThatNameALock(t *testing.T) {
	for _, name := range []string{
		"a", "orders:42", " ", "\x00", "\xff\xfe", "名前", "a\r\nb", ":", "a:{b}", "{a}", "{a}b", "a{b}c", "a{b}{c}",
		"{a}}", "{a}{", "}{a}", "{{a}", "a}b{c}", "{ }", strings.Repeat("x", 1024), "{" + strings.Repeat("x", 1022) + "}",
	} {
		if err := CheckName("", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNamesThatNameNone(t *testing.T) {
	for _, name := range []string{
		"", "{", "}", "{}", "{}a", "a{}", "{}{a}", "a{}{b}", "a{b", "a}b", "a}b{c", "}{", "a{b}"[:3], "{}}",
		strings.Repeat("x", 1025), strings.Repeat("{a}", 400),
	} {
		err := CheckName("", name)
		if !errors.Is(err, lockerr.ErrName) {
			t.Errorf("%q: %v, want ErrName", name, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), "relock: ") || len(err.Error()) > 300 {
			t.Errorf("%q: text %q", name, err)
		}
	}
}

func TestNamesOnTheWireFollowRedisson(t *testing.T) {
	for name, want := range map[string][3]string{
		"stock":     {"redisson_lock__channel:{stock}", "redisson_rwlock:{stock}", "{stock}:id:1:rwlock_timeout:1"},
		"{eu}stock": {"redisson_lock__channel:{eu}stock", "redisson_rwlock:{eu}stock", "{eu}stock:id:1:rwlock_timeout:1"},
		"a{b}c{d}":  {"redisson_lock__channel:a{b}c{d}", "redisson_rwlock:a{b}c{d}", "a{b}c{d}:id:1:rwlock_timeout:1"},
	} {
		p, rw := NewKeys(Plain, name), NewKeys(Read, name)
		if got := [3]string{p.Channel, rw.Channel, rw.timeout("id:1")}; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// Whatever a lock has on the wire lies in the slot of its name, so that one script
// can use all of it in a cluster.
func TestAllKeysOfALockShareItsSlot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		isName := func(name string) bool { return CheckName("", name) == nil }
		name := rapid.StringOfN(rapid.SampledFrom([]rune("{{{}}}aé: ")), 1, 12, -1).Filter(isName).Draw(rt, "name")
		slot := redistest.Slot(name)
		for _, k := range Kinds() {
			keys := NewKeys(k, name)
			used := []string{keys.fence, keys.Channel, keys.queue, keys.readers, keys.Prefix + "x"}
			if k == Read {
				used = append(used, keys.timeout("session:1"), keys.Grants(session("s")))
			}
			for _, key := range used {
				if key != "" && key != "x" && redistest.Slot(key) != slot {
					rt.Fatalf("%q is in slot %d, %q of it in %d", name, slot, key, redistest.Slot(key))
				}
			}
		}
	})
}
