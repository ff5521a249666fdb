package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Unanswered returns why a request that was sent d ago has failed with err: only that no answer
// came, if its bound has ended it.
func Unanswered(err error, d time.Duration) error {
	if errors.As(err, new(*Unstarted)) { // nothing was sent
		return err
	}
	if timeout := net.Error(nil); IsContextError(err) || errors.As(err, &timeout) && timeout.Timeout() {
		return NoAnswer(d)
	}
	return err
}

// NoAnswer is for how long no answer to a request has come.
type NoAnswer time.Duration

func (d NoAnswer) Error() string {
	return fmt.Sprintf("no answer from Redis for %v", time.Duration(d).Round(time.Millisecond))
}

// Transient reports whether err may pass by itself: the connection was lost, the server is
// loading its data or could not save it, or a failover is under way. All other errors, from
// WRONGTYPE and NOPERM to OOM, last until somebody acts.
func Transient(err error) bool {
	if u := (*Unstarted)(nil); errors.As(err, &u) {
		return u.passes
	}
	if errors.Is(err, rueidis.ErrClosing) || IsContextError(err) || errors.Is(err, ErrPool) ||
		err == ErrClusterNode || errors.As(err, new(*ReplicaError)) {
		return false
	}
	if code, ok := Code(err); ok {
		full := strings.Contains(err.Error(), "max number of clients reached")
		return full || Passes(code) || Interrupted(err)
	}
	return true
}

// Unsent reports whether a request has failed with err before anything was sent: there is no
// connection, and none could be made.
func Unsent(err error) bool {
	var u *Unstarted
	var op *net.OpError
	return errors.As(err, &u) || errors.As(err, &op) && op.Op == "dial"
}

// Unavailable reports whether err, of a request that has ended, leaves open what Redis would have
// answered.
func Unavailable(err error) bool { return IsContextError(err) || Transient(err) }

// Unreached reports whether err, which need not be of a request, says that Redis did not answer, or
// that it is not ready.
func Unreached(err error) bool {
	if _, answered := Code(err); answered {
		return Transient(err)
	}
	return IsContextError(err) || errors.As(err, new(NoAnswer)) || errors.As(err, new(net.Error)) || errors.Is(err, io.EOF)
}

// Passes reports whether an error reply with that code says that the server is not ready, or not the
// right one, which may pass. None of these has executed anything.
func Passes(code string) bool {
	switch code {
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN",
		"MOVED", "ASK", "NOREPLICAS", "BUSY", "UNBLOCKED", "MISCONF":
		return true
	}
	return false
}

// Interrupted reports whether err is of a script that may have been executed in part: its slot is
// half moved, and to the node a key that the script has emptied looks like one that has moved.
func Interrupted(err error) bool {
	_, ok := Code(err)
	return ok && strings.Contains(err.Error(), "access a non local key")
}

// Broken reports whether err means that a request got no reply because its connection broke: a new
// connection may be at hand.
func Broken(err error) bool {
	_, answered := Code(err)
	return err != nil && !answered && Transient(err)
}

// OfKeys reports whether err is an error reply that may be due to some of the keys of a command:
// the server may still run it for others.
func OfKeys(err error) bool {
	code, ok := Code(err)
	switch code {
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "UNBLOCKED", "UNKILLABLE", "NOREPLICAS",
		"OOM", "MISCONF", "NOAUTH", "WRONGPASS", "NOSCRIPT":
		return false
	}
	return ok && !strings.Contains(err.Error(), "max number of clients reached")
}

// Code returns the code of err if it is an error reply of Redis.
func Code(err error) (code string, ok bool) {
	if err == nil {
		return "", false // without an allocation
	}
	var re *rueidis.RedisError
	if !errors.As(err, &re) || re.IsNil() {
		return "", false
	}
	return RedisCode(re.Error()), true
}

// Unsupported reports whether err means that the server does not have a command, or that this
// user may not run it.
func Unsupported(err error) bool {
	code, ok := Code(err)
	return ok && (code == "NOPERM" || strings.EqualFold(code, "unknown"))
}

// RedisCode returns the code of an error reply, with or without "ERR ", which the client strips.
// Before Redis 7 an error inside a script had the form "ERR Error running script (…):
// @user_script:5: CODE text" if the command ran, and if it was refused "… @user_script:5:
// @user_script: 5: -CODE text"; of the last a script that caught it returns the end.
func RedisCode(text string) string {
	const line = "@user_script:"
	text = strings.TrimPrefix(text, "ERR ")
	if i := strings.LastIndex(text, line); i >= 0 && (i == 0 || strings.HasPrefix(text, "Error running script ")) {
		_, inner, _ := strings.Cut(text[i+len(line):], ": ")
		code, _, _ := strings.Cut(strings.TrimPrefix(inner, "-"), " ")
		if code == strings.ToUpper(code) {
			return code
		}
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}
