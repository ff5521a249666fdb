package relock

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/rueidis"
)

// The errors of this package, for [errors.Is]. What a method returns wraps one of
// them with the operation and the lock's name, and with the cause where there is
// one. Every error's text starts with "relock: ".
var (
	// ErrLost: the hold ended before Unlock. Its lease ran out, somebody forced
	// the lock open, its key was deleted, or the session was closed.
	ErrLost = errors.New("relock: lock lost")

	// ErrNotHeld: this owner holds nothing here.
	ErrNotHeld = errors.New("relock: lock not held")

	// ErrClosed: the session is closed.
	ErrClosed = errors.New("relock: session closed")

	// ErrUpgrade: Lock by an owner that holds only the read side. Waiting would
	// never end, because the wait would be for the owner itself.
	ErrUpgrade = errors.New("relock: a read hold cannot be upgraded; unlock the read side first")

	// ErrName: the lock's name is empty, longer than 1 KiB, or has a brace but no
	// valid hash tag.
	ErrName = errors.New("relock: bad lock name")

	// ErrOption: an option's value is out of range.
	ErrOption = errors.New("relock: option out of range")
)

var errZero = errors.New("relock: zero value is not usable; make the lock with a Session's method or a New function")

// opError is the failure of one operation on one lock.
type opError struct {
	op, name string
	errs     []error
}

func (e *opError) Error() string {
	var b strings.Builder
	b.WriteString("relock: ")
	b.WriteString(e.op)
	if e.name != "" {
		b.WriteString(` "` + e.name + `"`)
	}
	for i, err := range e.errs {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		b.WriteString(strings.TrimPrefix(err.Error(), "relock: "))
	}
	return b.String()
}

func (e *opError) Unwrap() []error { return e.errs }

// failed returns an opError of those of errs that are not nil and say something new.
func failed(op, name string, errs ...error) error {
	e := &opError{op: op, name: name}
	for _, err := range errs {
		if err == nil {
			continue
		}
		known := false
		for _, k := range e.errs {
			known = known || k == err || errors.Is(k, err)
		}
		if !known {
			e.errs = append(e.errs, err)
		}
	}
	return e
}

// ctxFailed returns the failure of an operation whose ctx has ended, with the last
// Redis error if there was one.
func ctxFailed(op, name string, ctx context.Context, last error) error {
	return failed(op, name, ctx.Err(), context.Cause(ctx), last)
}

// transient reports whether err may pass by itself: the connection was lost, the
// server is loading its data, or a failover is under way. All else, from WRONGTYPE
// and NOPERM to OOM, stays until somebody acts.
func transient(err error) bool {
	if errors.Is(err, rueidis.ErrClosing) || isEnd(err) || errors.As(err, new(*replicaError)) {
		return false
	}
	if code, ok := redisError(err); ok {
		switch code {
		case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN",
			"MOVED", "ASK", "NOREPLICAS", "BUSY", "UNBLOCKED":
			return true
		}
		return strings.Contains(err.Error(), "max number of clients reached")
	}
	return true
}

// redisError returns the code of err if it is an error reply of Redis.
func redisError(err error) (code string, ok bool) {
	var re *rueidis.RedisError
	if !errors.As(err, &re) || re.IsNil() {
		return "", false
	}
	return redisCode(re.Error()), true
}

// redisFailed wraps an error of Redis, if there is one.
func redisFailed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return failed(op, name, err)
}

// redisCode returns the code of an error reply, of which the client takes off "ERR ".
// Before Redis 7 an error inside a script came as "ERR Error running script (…):
// @user_script: 5: -CODE text".
func redisCode(text string) string {
	text = strings.TrimPrefix(text, "ERR ")
	if _, inner, ok := strings.Cut(text, "@user_script"); ok && strings.HasPrefix(text, "Error running script") {
		if _, code, ok := strings.Cut(inner, ": -"); ok {
			text = code
		}
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}
