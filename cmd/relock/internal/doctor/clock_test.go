package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
		require.Regexp(t, "^"+want, said)
	}
}
