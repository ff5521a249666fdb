package doctor

import (
	"strings"
	"testing"
	"time"
)

func TestClockThatIsOffIsAWarning(t *testing.T) {
	for ahead, want := range map[time.Duration]string{
		0:                      "ok clock the server's is 0s ahead of this host's, give or take 1ms",
		500 * time.Millisecond: "ok clock the server's is 500ms ahead of",
		3 * time.Second:        "WARNING clock the server's is 3s ahead of",
		-90 * time.Second:      "WARNING clock the server's is 1m30s behind this",
	} {
		said := ""
		e := Exam{Found: func(f Finding) { said = f.Severity.String() + " " + f.Check + " " + f.Text }}
		e.judgeClock("", ahead, 2*time.Millisecond)
		if !strings.HasPrefix(said, want) {
			t.Errorf("%v: %q, want %q", ahead, said, want)
		}
	}
}

func TestVersionsAreCompared(t *testing.T) {
	for version, old := range map[string]bool{"6.0.16": true, "6.2.0": false, "7.0.15": false, "10.1": false, "unknown": false, "5.0": true} {
		if before(version, 6, 2) != old {
			t.Errorf("before(%s) is %v", version, !old)
		}
	}
}
