package redistest

import (
	"testing"
	"time"
)

// KeepBusy keeps servers busy with a script, so that they answer BUSY to nearly every
// command, until the function that it returns is called, or the test ends. They are to
// be started with a small lua-time-limit, or it takes seconds to begin.
//
// Both stop the test with t.Fatal when a server does not follow.
func KeepBusy(t testing.TB, servers ...*Server) (free func()) {
	t.Helper()
	const within = 20 * time.Second
	ended := make(chan struct{}, len(servers))
	for _, s := range servers {
		go func() { // ends with the script
			_, _ = s.Do("EVAL", "while true do end", "0") // is killed, or gives up
			ended <- struct{}{}
		}()
	}
	answers := func(s *Server) bool {
		_, err := s.Do("PING")
		return err == nil
	}
	for _, s := range servers {
		Eventually(t, within, "the server to be busy", func() bool { return !answers(s) })
	}
	free = func() {
		t.Helper()
		for _, s := range servers {
			Eventually(t, within, "the script to be killed", func() bool {
				_, _ = s.Do("SCRIPT", "KILL")
				return answers(s)
			})
		}
		for range servers {
			<-ended
		}
		servers = nil
	}
	t.Cleanup(free)
	return free
}
