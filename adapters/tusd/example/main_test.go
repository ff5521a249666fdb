package main

import (
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { redistest.RunMain(m, "example", main) }

func TestUploadsGoOnAtTheOtherProcess(t *testing.T) {
	server, dir := redistest.Start(t), t.TempDir()
	start := func(number string) *redistest.Proc {
		return redistest.Child(t, "example", "-redis", server.Addr(), "-dir", dir, "-number", number)
	}
	one, two := start("1"), start("2")
	has := func(text string) {
		t.Helper()
		redistest.Eventually(t, kit.Soon, text, func() bool {
			line, err := two.Line(kit.Soon)
			require.NoError(t, err)
			return len(line) > len(text) && line[len(line)-len(text):] == text
		})
	}
	has("10 bytes are uploaded")
	has("10 bytes are uploaded")
	require.NoError(t, one.Interrupt())
	require.NoError(t, two.Interrupt())
}
