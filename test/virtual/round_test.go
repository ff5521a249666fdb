package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/peek"
)

// The process stands still amid its round. Each part is certain then, but for less than the clocks of
// the deployments may have drifted.
func TestRedlockWhoseRoundTookTooLongIsNone(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]bool{
		lease/100 + 2*time.Millisecond + 1: true, lease/100 + 2*time.Millisecond: false,
	} {
		t.Run(left.String(), func(t *testing.T) {
			alone(t, redlock, func(t *testing.T, w *world) {
				p := w.process()
				const delay = 100 * time.Millisecond
				p.delay(delay)
				time.AfterFunc(delay, func() {
					for _, s := range p.s {
						peek.Engine(s).Clock.Skip(lease - 2*delay - left)
					}
				})
				ok, err := p.lock().TryLock(background)
				require.Equal(t, want, ok)
				require.Equal(t, want, err == nil)
			})
		})
	}
}
