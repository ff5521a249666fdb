package wire

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
)

// CodeNotLock is the code of the error by which a script says that a lock's key holds something
// else (lua/core.lua). The script has changed nothing.
const CodeNotLock = "NOTLOCK"

// notLock is the error of a lock whose key, or one of the keys beside it, holds something else.
type notLock struct {
	text  string
	reply error // of Redis; not in the text
}

func (e *notLock) Error() string   { return lockerr.ErrNotLock.Error() + ": " + e.text }
func (e *notLock) Unwrap() []error { return []error{lockerr.ErrNotLock, e.reply} }

const elsewhere = "choose another name, or a prefix for all names (WithPrefix)"

// explain returns err, or what to do if err is about what a key holds. A script that finds the
// lock's own key of another type says NOTLOCK, so any other error of a type is about besides, the
// keys that relock has beside it.
func explain(err error, key string, besides ...string) error {
	code, ok := transport.Code(err)
	switch {
	case !ok:
		return err
	case code == CodeNotLock && strings.Contains(err.Error(), "type"):
		return &notLock{fmt.Sprintf("the key %q is not a hash (WRONGTYPE): a Semaphore, a lock of another library (redsync, redislock, "+
			"rueidislock) or other data has that name; %s", key, elsewhere), err}
	case code == CodeNotLock && strings.Contains(err.Error(), "permits"):
		return &notLock{fmt.Sprintf("the key %q is not a semaphore: another lock or other data has that name; %s", key, elsewhere), err}
	case code == CodeNotLock:
		return &notLock{fmt.Sprintf("the key %q is a hash, but without any hold: it is data of an application; %s", key, elsewhere), err}
	case strings.Contains(err.Error(), "WRONGTYPE"):
		return &notLock{fmt.Sprintf("relock's own key beside it, \"%s\", has another type (WRONGTYPE): delete that key, or %s",
			strings.Join(besides, `" or "`), elsewhere), err}
	}
	return err
}

// explain explains an error of a script for the lock.
func (k *Keys) explain(err error) error {
	if err == nil {
		return nil
	}
	besides := []string{k.fence, k.queue}
	if k.readers != "" {
		besides = append(besides, k.readers)
	}
	return explain(err, k.Name, besides...)
}

// Damage is why a release that has ended its hold could not grant the lock: a key beside it is
// something else.
type Damage struct{ error }

func (e Damage) Unwrap() error { return e.error }

func damage(k *Keys, err error) error {
	if code, _ := transport.Code(err); code == "DAMAGED" {
		return Damage{k.explain(err)}
	}
	return err
}

var holdID = regexp.MustCompile(`^[[:xdigit:]]{8}(-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}:-?[0-9]+(:write)?$`)

// IsHoldID reports whether a field of a hash is a hold id, as lua/core.lua does.
func IsHoldID(field string) bool { return holdID.MatchString(field) }

// IsOurs reports whether a hold id is of relock, not of Redisson, as lua/core.lua does.
func IsOurs(id string) bool { return len(id) > 14 && id[14] != '4' }

// IsHoldOf reports whether text is the id of a hold of a session.
func IsHoldOf(session, text string) bool {
	n, ours := strings.CutPrefix(text, session+":")
	n = strings.TrimSuffix(n, ":write")
	return ours && n != "" && len(n) <= 19 && strings.Trim(n, "0123456789") == ""
}

// Hint returns what a message that has a waiter poll tells of its hold id, as hintOf of
// lua/core.lua.
func Hint(id string) string {
	_, n, _ := strings.Cut(id, ":")
	n, _, _ = strings.Cut(n, ":") // of a writer
	return n[:min(len(n), 4)]
}
