package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Redisson's turns come by count of releases: seldom if it does not come, often once it has come.
func TestRedissonsTurnsComeByCountOfReleases(t *testing.T) {
	t.Parallel()
	for kind, channel := range map[Kind]string{Plain: "redisson_lock__channel:{a}", Write: rwChannel} {
		r := &rwRig{NewRig(t), "a"}
		r.listen(channel)
		n := 0
		releases := func() (until int) { // Redisson's turn
			for {
				n, until = n+1, until+1
				redistest.Eventually(t, time.Minute, "the end of the turn", func() bool {
					return strings.HasPrefix(tries(kind, n)(r), "granted")
				})
				ends(kind, n)(r)
				if strings.HasPrefix(r.text("GET", rwYield), "left ") {
					return until
				}
			}
		}
		require.Equal(t, []int{1, 16, 32}, []int{releases(), releases(), releases()}, "it listens, and does not come")
		redissonHas(r)
		require.Equal(t, "taken", tries(kind, n)(r))
		r.must("DEL", "a")
		require.Equal(t, 8, releases(), "it has come")

		r.yields("left", time.Hour) // the clock has stepped back
		require.Contains(t, tries(kind, n+1)(r), "granted")
	}
}
