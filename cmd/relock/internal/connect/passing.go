package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
)

// passing are replies of a server that starts, fails over, or cannot save its data: they pass.
var passing = []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "BUSY", "MISCONF"}

// Passing reports whether an error of connecting may be over soon: nobody listens, nobody answers, or the server
// is still starting. What is wrong with the address, the password, permissions or certificates stays wrong.
func Passing(err error) bool {
	var reply *rueidis.RedisError
	switch {
	case errors.As(err, &reply):
		word, _, _ := strings.Cut(reply.Error(), " ")
		return slices.Contains(passing, word)
	case errors.As(err, new(*AddressError)), errors.As(err, new(*schemeError)):
		return false
	case errors.Is(err, context.Canceled):
		return false
	}
	var op *net.OpError
	var timeout net.Error
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &timeout) && timeout.Timeout() ||
		errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, context.DeadlineExceeded)
}
