package redistest

import (
	"testing"
	"time"
)

// Eventually polls cond until it is true, and stops the test with t.Fatal when
// it is not true within the given time; what says in the message what was being
// waited for. The pause between polls grows from 1 ms to 20 ms.
//
// It must be called from the test's own goroutine, like t.Fatal. The time is
// not enforced on cond itself: a cond that blocks, blocks Eventually.
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	if !poll(within, cond) {
		t.Fatalf("redistest: not within %v: %s", within, what)
	}
}

// poll calls cond until it is true or the given time is over, at least once and
// once more after the time is over, and reports whether it became true.
func poll(within time.Duration, cond func() bool) bool {
	const longest = 20 * time.Millisecond
	deadline := time.Now().Add(within)
	for pause := time.Millisecond; ; pause = min(2*pause, longest) {
		late := time.Now().After(deadline)
		if cond() {
			return true
		}
		if late {
			return false
		}
		time.Sleep(pause)
	}
}
