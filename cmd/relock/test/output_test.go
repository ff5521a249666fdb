package test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
)

// What could not be written has not been said, whatever came of the command: a full disk, a closed output.
func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	s := server(t)
	defer hold(t, kit.NewSession(t, s).Mutex("held"))()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		lacks(t, "/dev/full")
	}
	defer full.Close()
	for _, args := range [][]string{
		{"list"}, {"list", "--json"}, {"inspect", "held"}, {"inspect", "--json", "held"}, {"unlock", "--yes", "--json", "free"},
		{"acl", "goods:"}, {"doctor"}, {"doctor", "--json"}, {"doctor", "--redis", "localhost:1"}, {"version"}, {"--version"},
		{"--help"}, {"list", "--help"}, {"help"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"},
		{"completion", "powershell"}, {"__complete", "inspect", ""}, {"man"},
	} {
		cmd := command(s.Addr(), args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &said
		err := cmd.Run()
		require.Equal(t, 71, cmd.ProcessState.ExitCode(), "%v: %v %s", args, err, &said)
		require.Contains(t, said.String(), "no space left on device", args)
	}
	inspect := command(s.Addr(), "inspect", "-q", "held") // which prints nothing
	inspect.Stdout = full
	require.NoError(t, inspect.Run())
}
