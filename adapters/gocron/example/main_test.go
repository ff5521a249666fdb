package main

import (
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { redistest.RunMain(m, "example", main) }

// One process leads and is killed. The other runs all jobs from then on, and ends by Ctrl-C.
func TestTheOtherProcessGoesOn(t *testing.T) {
	server := redistest.Start(t)
	start := func(number string) (*redistest.Proc, *redistest.Buffer) {
		p, out := redistest.Child(t, "example", "-redis", server.Addr(), "-number", number), new(redistest.Buffer)
		p.Copy(out)
		return p, out
	}
	runs := func(out *redistest.Buffer, job string) {
		t.Helper()
		before := strings.Count(out.String(), job)
		redistest.Eventually(t, kit.Soon, job, func() bool { return strings.Count(out.String(), job) > before })
	}
	one, first := start("1")
	runs(first, "leader")
	two, second := start("2")
	one.Kill()
	runs(second, "leader")
	runs(second, "report")
	require.NoError(t, two.Interrupt())
	require.NotContains(t, first.String(), "process 2")
}
