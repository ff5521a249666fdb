package main

import (
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { redistest.RunMain(m, "example", main) }

// Each certificate is obtained once. One process is killed, and the other goes on, and ends by Ctrl-C.
func TestEachCertificateIsObtainedOnce(t *testing.T) {
	server, dir := redistest.Start(t), t.TempDir()
	var out redistest.Buffer
	start := func(number string) *redistest.Proc {
		p := redistest.Child(t, "example", "-redis", server.Addr(), "-dir", dir, "-number", number)
		p.Copy(&out)
		return p
	}
	has := func(process string) {
		t.Helper()
		before := len(out.String())
		redistest.Eventually(t, kit.Soon, process, func() bool {
			for line := range strings.Lines(out.String()[before:]) {
				if strings.Contains(line, process) && strings.HasSuffix(line, "has its certificate\n") {
					return true
				}
			}
			return false
		})
	}
	one, two := start("1"), start("2")
	has("process 1")
	has("process 2")
	both := out.String() // one that is killed while it obtains a certificate leaves that to the other
	one.Kill()
	has("process 2")
	require.NoError(t, two.Interrupt())
	obtained := map[string]bool{}
	for line := range strings.Lines(both) {
		if _, domain, ok := strings.Cut(line, "t"); ok && strings.HasSuffix(line, "obtaining a certificate\n") {
			require.False(t, obtained[domain], both)
			obtained[domain] = true
		}
	}
	require.NotEmpty(t, obtained)
}
