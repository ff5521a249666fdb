package main

import (
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { redistest.RunMain(m, "example", main) }

// One process schedules and is killed. The other one does from then on, runs the tasks, and ends by
// Ctrl-C.
func TestTheOtherProcessGoesOn(t *testing.T) {
	server := redistest.Start(t)
	start := func(number string) (*redistest.Proc, *redistest.Buffer) {
		p := redistest.Child(t, "example", "-redis", server.Addr(), "-number", number)
		out := new(redistest.Buffer)
		p.Copy(out)
		return p, out
	}
	says := func(out *redistest.Buffer, text string) {
		t.Helper()
		before := strings.Count(out.String(), text)
		redistest.Eventually(t, kit.Soon, text, func() bool {
			return strings.Count(out.String(), text) > before
		})
	}
	one, first := start("1")
	says(first, "schedules")
	says(first, "ends")
	two, second := start("2")
	one.Kill()
	says(second, "schedules")
	says(second, "ends")
	require.NoError(t, two.Interrupt())
	require.NotContains(t, first.String(), "process 2")
}
