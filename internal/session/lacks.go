package session

import (
	"regexp"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// unableError says in plain words what a server, or a proxy before it, cannot do, and what it said.
type unableError struct {
	what string
	err  error
}

func (e *unableError) Error() string {
	said, _, _ := strings.Cut(e.err.Error(), ", with args beginning with") // the text of a script
	return e.what + ", which locks cannot do without; it says: " + said
}

func (e *unableError) Unwrap() error { return e.err }

var (
	// What servers say without Lua, such as Valkey 9.1 whose module is not loaded.
	noLua = regexp.MustCompile(`(?i)scripting engine|script(s|ing)? (is|are) (not supported|disabled)`)
	// What servers say that lack a command, and proxies that do not pass it on.
	noCommand = regexp.MustCompile("(?i)(?:unknown|unsupported) command ['`]?(\\w*)") // quoted by ` before Redis 7
)

// plainly says what a refusal means that is the server's own, and not of a user's rights.
func plainly(err error) error {
	if _, refused := transport.Code(err); !refused {
		return err
	}
	said := err.Error()
	if noLua.MatchString(said) {
		return &unableError{"this server runs no Lua scripts", err}
	}
	if found := noCommand.FindStringSubmatch(said); found != nil {
		command := strings.ToUpper(found[1])
		if command == "" {
			command = "such command"
		}
		return &unableError{"this server, or a proxy before it, has no " + command, err}
	}
	return err
}

// wantsKeys reports whether err says that a server runs only scripts that have keys, as ElastiCache
// Serverless: those of locks have some.
func wantsKeys(err error) bool {
	_, refused := transport.Code(err)
	return refused && strings.Contains(err.Error(), "without any input keys")
}

// trySeveralKeys returns a script that has as many keys as those of locks have at most, and touches
// none.
func (s *Session) trySeveralKeys() []string {
	all := []string{"EVAL", "return #KEYS", "5"}
	for _, key := range "12345" {
		all = append(all, wire.PrefixSession+"{"+s.ID+"}:"+string(key))
	}
	return all
}

// ofSeveralKeys returns why no script can have several keys, as behind a proxy that routes each key
// by itself. That a user has no right to these keys, or that another node has them, says nothing.
func ofSeveralKeys(answer rueidis.RedisResult) error {
	err := answer.Error()
	if code, refused := transport.Code(err); !refused || code == "NOPERM" || code == "OOM" || transport.Transient(err) {
		return nil
	}
	return &unableError{"this server, or a proxy before it, does not run scripts with several keys of one slot", err}
}
