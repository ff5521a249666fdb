package locks_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// within calls f with a deadline.
func within(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(kit.Background, 200*time.Millisecond)
	defer cancel()
	return f(ctx)
}

// What people read, word by word: the package, the method, the lock, and the reasons, in one line.
func TestTextsOfErrors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server, relock.WithLease(time.Minute))
	enough, enoughCause := context.WithCancelCause(kit.Background)
	enoughCause(errors.New("enough"))
	owner := s.NewContext(kit.Background)
	m, f, rw := s.Mutex("a"), s.FairMutex("a"), s.RWMutex("a")
	g := relock.NewGroup(s.Mutex("a"), s.Mutex("b"))
	r := relock.NewRedlock([]*relock.Session{s}, "r")
	try := func(l relock.Locker) func(context.Context) error {
		return func(ctx context.Context) error { _, err := l.TryLock(ctx); return err }
	}
	inspect := func(ctx context.Context) error { _, err := s.Inspect(ctx, "a"); return err }
	force := func(ctx context.Context) error { _, err := s.ForceUnlock(ctx, "a"); return err }
	start := func(o ...relock.SessionOption) error {
		_, err := relock.NewSession(kit.Background, kit.NewClient(t, server), o...)
		return err
	}
	upgrade := func() error {
		require.NoError(t, rw.RLock(owner))
		defer func() { require.NoError(t, rw.RUnlock(owner)) }()
		return rw.Lock(owner)
	}
	// after returns the error of f after the loss of a lock "a".
	after := func(lose func(name string), l relock.Locker, f func() error) error {
		kit.Lock(t, kit.Background, l)
		lose("a")
		return f()
	}
	forced := func(name string) {
		_, err := s.ForceUnlock(kit.Background, name)
		require.NoError(t, err)
	}
	lostBy := func(ctx context.Context, lock func(context.Context) error) error {
		require.NoError(t, lock(ctx))
		forced("a")
		return lock(ctx)
	}
	deleted := func(name string) { _, err := server.Do("DEL", name); require.NoError(t, err) }
	full := func(f func() error) error {
		_, err := server.Do("CONFIG", "SET", "maxmemory", "1")
		require.NoError(t, err)
		defer func() { _, err := server.Do("CONFIG", "SET", "maxmemory", "0"); require.NoError(t, err) }()
		return f()
	}
	data := func(f func(context.Context) error) error {
		_, err := server.Do("HSET", "a", "field", "value")
		require.NoError(t, err)
		defer deleted("a")
		return f(kit.Background)
	}
	for _, c := range []struct {
		err  error
		text string
	}{
		{m.Lock(kit.Cancelled()), `lock "a": context canceled`},
		{m.Lock(enough), `lock "a": context canceled; enough`},
		{try(m)(enough), `try lock "a": context canceled; enough`},
		{rw.Lock(enough), `lock "a": context canceled; enough`},
		{rw.RLock(enough), `rlock "a": context canceled; enough`},
		{try(rw.RLocker())(enough), `try rlock "a": context canceled; enough`},
		{g.Lock(enough), `lock group: context canceled; enough`},
		{try(g)(enough), `try lock group: context canceled; enough`},
		{r.Lock(enough), `lock "r": context canceled; enough`},
		{try(r)(enough), `try lock "r": context canceled; enough`},
		{inspect(enough), `inspect "a": context canceled; enough`},
		{force(enough), `force unlock "a": context canceled; enough`},

		{m.Unlock(owner), `unlock "a": lock not held`},
		{rw.Unlock(owner), `unlock "a": lock not held`},
		{rw.RUnlock(owner), `runlock "a": lock not held`},
		{g.Unlock(owner), `unlock group: lock not held`},
		{r.Unlock(owner), `unlock "r": lock not held`},
		{m.Err(), `lock "a": lock not held`},
		{rw.RLocker().Err(), `lock "a": lock not held`},
		{g.Err(), `lock "a, b": lock not held`},
		{r.Err(), `lock "r": lock not held`},
		{upgrade(), `lock "a": a read hold cannot be upgraded; unlock the read side first`},

		{after(forced, m, m.Err), `lock "a": lock lost: it was forced open`},
		{m.Lock(kit.Background), ``},
		{m.Unlock(kit.Background), `unlock "a": lock lost: it was forced open; another hold of this lock value still lives, and needs an Unlock of its own`},
		{m.Unlock(kit.Background), ``},
		{lostBy(owner, m.Lock), `lock "a": lock lost: unlock the lost hold before locking again; lock lost: it was forced open`},
		{m.Unlock(owner), `unlock "a": lock lost: it was forced open`},
		{after(deleted, m, func() error { return m.Unlock(kit.Background) }), `unlock "a": lock lost: it is not in Redis any more`},
		{after(func(string) { deleted("a"); deleted("b") }, g, func() error { return g.Unlock(kit.Background) }), `unlock "a": lock lost: it is not in Redis any more; unlock "b": lock lost: it is not in Redis any more`},

		{s.Mutex("").Lock(kit.Background), `lock: bad lock name: it is empty`},
		{s.Mutex("a{").Lock(kit.Background), `lock "a{": bad lock name: "a{" has a brace but no valid hash tag; write {tag} somewhere in it, or leave out the braces`},
		{s.Mutex(strings.Repeat("x", 2000)).Lock(kit.Background), `lock "` + strings.Repeat("x", 1024) + `"...: bad lock name: it is 2000 bytes long, more than 1024`},
		{s.Mutex("two\nlines").Unlock(kit.Background), `unlock "two\nlines": lock not held`},
		{s.Mutex("a", relock.WithMaxHold(0)).Lock(kit.Background), `lock "a": option out of range: WithMaxHold(0s): must be at least 10ms`},
		{start(relock.WithTenure(-1)), `NewSession: option out of range: WithTenure(-1ns): must not be negative`},
		{relock.NewGroup().Lock(kit.Background), `lock group: option out of range: a group needs at least one member`},
		{relock.NewGroup(nil).Lock(kit.Background), `lock group: option out of range: a member of the group is nil`},
		{relock.NewGroup(m, f).Lock(kit.Background), `lock group: option out of range: members of the group exclude each other, locks "a"`},
		{relock.NewRedlock(nil, "r").Lock(kit.Background), `lock "r": option out of range: a Redlock needs at least one session, better three or five`},
		{relock.NewRedlock([]*relock.Session{s, s}, "r").Err(), `lock "r": lock not held`},

		{full(func() error { return m.Lock(kit.Background) }), `lock "a": OOM command not allowed when used memory > 'maxmemory'.…`},
		{full(func() error { return rw.RLock(kit.Background) }), `rlock "a": OOM command not allowed when used memory > 'maxmemory'.…`},
		{full(func() error { return g.Lock(kit.Background) }), `lock "a": OOM command not allowed when used memory > 'maxmemory'.…`},
		{full(func() error { return try(r)(kit.Background) }), `try lock "r": deployment 1 of 1: OOM command not allowed when used memory > 'maxmemory'.…`},

		{data(m.Lock), `lock "a": not a lock: the key "a" is a hash, but without any hold: it is data of an application; choose another name, or a prefix for all names (WithPrefix)`},
		{data(g.Lock), `lock "a": not a lock: the key "a" is a hash, but without any hold: it is data of an application; choose another name, or a prefix for all names (WithPrefix)`},
		{data(try(g)), `try lock "a": not a lock: the key "a" is a hash, but without any hold: it is data of an application; choose another name, or a prefix for all names (WithPrefix)`},

		{s.Close(kit.Background), ``},
		{m.Lock(kit.Background), `lock "a": session closed`},
		{try(m)(kit.Background), `try lock "a": session closed`},
		{rw.RLock(kit.Background), `rlock "a": session closed`},
		{g.Lock(kit.Background), `lock "a": session closed`},
		{r.Lock(kit.Background), `lock "r": session closed`},
		{inspect(kit.Background), `inspect "a": session closed`},
		{force(kit.Background), `force unlock "a": session closed`},
	} {
		if c.text == "" {
			require.NoError(t, c.err)
			continue
		}
		if call, reason, oom := strings.Cut(strings.TrimSuffix(c.text, "…"), "OOM"); oom { // Redis adds the script and its line
			require.Regexp(t, "^relock: "+call+".*OOM"+reason, c.err.Error())
			continue
		}
		require.EqualError(t, c.err, "relock: "+c.text)
	}
}

// The same where Redis is gone: what the client says stands at the end.
func TestTextsOfErrorsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	m := s.Mutex("a")
	kit.Lock(t, kit.Background, m)
	kit.Lock(t, kit.Background, other.Mutex("x"))
	kit.Lock(t, kit.Background, other.Mutex("y"))
	server.Kill()
	_, errTry := s.Mutex("b").TryLock(kit.Background)
	for _, c := range []struct {
		err  error
		text string
	}{
		{within(s.Mutex("b").Lock), `lock "b": Redis is not available; context deadline exceeded; .+`},
		{within(s.RWMutex("b").RLock), `rlock "b": Redis is not available; context deadline exceeded; .+`},
		{within(relock.NewRedlock([]*relock.Session{s}, "b").Lock), `lock "b": Redis is not available; context deadline exceeded; deployment 1 of 1: .+`},
		{errTry, `try lock "b": Redis is not available; .+`},
		{within(s.Close), `close: context deadline exceeded; lock "a" is not released, and expires with its lease; .+`},
		{within(other.Close), `close: context deadline exceeded; 2 locks, "[xy]" among them, are not released, and expire with their leases; .+`},
	} {
		require.Regexp(t, regexp.MustCompile(`^relock: `+c.text+`$`), c.err.Error()) // a dot is no end of line
		require.Equal(t, 1, strings.Count(c.err.Error(), "relock: "), c.err.Error())
	}
	require.ErrorIs(t, errTry, relock.ErrUnavailable)
	require.NotErrorIs(t, errTry, relock.ErrTaken)
}
