package memredis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLengthOfAValue(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"+OK\r\n", "-ERR x\r\n", ":12\r\n", "_\r\n", ",1.5\r\n", "#t\r\n",
		"$0\r\n\r\n", "$5\r\n\r\n\r\n*\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "%1\r\n+a\r\n*2\r\n:1\r\n:2\r\n", "~1\r\n:1\r\n",
		">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
	} {
		for n := range len(value) {
			require.Zero(t, length([]byte(value[:n])), "%q is whole", value[:n])
		}
		require.Equal(t, len(value), length([]byte(value+"+next\r\n")), "%q", value)
	}
}

func TestKindOfACommand(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]kind{
		"*1\r\n$4\r\nping\r\n":                     upkeep,
		"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n":         upkeep,
		"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n":     pushed,
		"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$0\r\n": ordinary,
	} {
		require.Equal(t, want, kindOf([]byte(command)), "%q", command)
	}
}
