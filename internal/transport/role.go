package transport

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

const (
	// AnswerMost bounds a question whether a server is still there.
	AnswerMost = time.Second

	// roleAgain is when a server that has refused to tell its role is asked again. Refusals are
	// logged (ACL LOG), so it is not asked each time.
	roleAgain = 10 * time.Second
)

// What Check finds wrong with a connection.
var (
	ErrReplica = errors.New("the connection leads to a replica")
	ErrSilent  = errors.New("the connection does not answer")
	errOld     = errors.New("the connection is not a new one")
)

// stale reports whether err is of a connection for which a new one may be better.
func stale(err error) bool { return err == ErrReplica || err == ErrSilent || err == errOld }

// Check asks whether conn is answered, and by a primary. A server that does not tell its role
// passes.
func (c *Conn) Check(ctx context.Context, conn rueidis.CommandClient) error {
	return c.check(ctx, conn, make(chan struct{}, 1))
}

// check is Check with a place for the questions to conn.
func (c *Conn) check(ctx context.Context, conn rueidis.CommandClient, place chan struct{}) error {
	ctx, cancel := timing.Within(ctx, AnswerMost)
	defer cancel()
	if c.roleless() {
		return Silence(c.question(ctx, conn, place, "PING").NonRedisError()) // any answer will do
	}
	reply, err := c.question(ctx, conn, place, "ROLE").ToArray()
	switch _, refused := Code(err); {
	case refused: // alive; its role is unknown
		if Unsupported(err) {
			c.roleFrom.Store(time.Now().Add(roleAgain).UnixNano())
		}
		return nil
	case err == nil && !IsPrimary(reply):
		return ErrReplica
	}
	return Silence(err)
}

// roleless reports whether Check does not ask for the role.
func (c *Conn) roleless() bool { return c.AnyRole.Load() || time.Now().UnixNano() < c.roleFrom.Load() }

// question sends a command that any server answers, on conn.
func (c *Conn) question(
	ctx context.Context, conn rueidis.CommandClient, place chan struct{}, words ...string,
) rueidis.RedisResult {
	r, _ := c.send(ctx, nil, conn, place, nil, conn.B().Arbitrary(words...).Build(), nil)
	return r
}

// serverOf returns the run id of the server that conn leads to, "" if it does not tell.
func (c *Conn) serverOf(ctx context.Context, conn rueidis.CommandClient, place chan struct{}) string {
	ctx, cancel := timing.Within(ctx, AnswerMost)
	defer cancel()
	text, _ := c.question(ctx, conn, place, "INFO", "server").ToString()
	_, id, _ := strings.Cut(text, "run_id:")
	id, _, _ = strings.Cut(id, "\r")
	return id
}

// ageOf returns how long conn is open, to the second, 0 if the server does not tell.
func (c *Conn) ageOf(ctx context.Context, conn rueidis.CommandClient) time.Duration {
	ctx, cancel := timing.Within(ctx, AnswerMost)
	defer cancel()
	text, _ := c.question(ctx, conn, make(chan struct{}, 1), "CLIENT", "INFO").ToString()
	_, age, _ := strings.Cut(text, " age=")
	age, _, _ = strings.Cut(age, " ")
	seconds, _ := strconv.Atoi(age)
	return time.Duration(seconds) * time.Second
}

// IsPrimary reads the reply of ROLE.
func IsPrimary(role []rueidis.RedisMessage) bool {
	if len(role) == 0 {
		return false
	}
	name, _ := role[0].ToString()
	return name == "master"
}

// Silence replaces the error of a question that got no answer in time, which is the end of its
// context.
func Silence(err error) error {
	if errors.Is(err, context.Canceled) {
		return ErrSilent
	}
	return err
}
