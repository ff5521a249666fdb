package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// Only what more time may give is tried again: the server has been reached, or was too slow, and nobody has refused.
func TestOnlyWhatIsLateIsTriedAgain(t *testing.T) {
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for _, err := range []error{
		timeout, fmt.Errorf("cannot connect: %w", timeout), context.DeadlineExceeded, &sessionError{timeout},
		&sessionError{errors.New("subscription connection does not answer")},
	} {
		require.True(t, late(err), err)
	}
	for _, err := range []error{
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, io.EOF, &sessionError{io.EOF}, &sessionError{relock.ErrOption},
		&AddressError{errors.New("no URL")}, plainError("h:1"), errors.New("x509: unknown authority"),
	} {
		require.False(t, late(err), err)
	}
}
