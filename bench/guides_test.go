package main

import (
	"context"
	"errors"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What the guides tell those who change from another library.

// guide is a server with clients of all libraries.
type guide struct {
	server  *server
	session *relock.Session
	rl      *redislock.Client
	rs      *redsync.Redsync
	locker  rueidislock.Locker
}

// openGuide gives the session a prefix, as the guides say, or none.
func openGuide(t *testing.T, opts ...relock.SessionOption) *guide {
	redistest.Start(t) // skips the test where there is none
	s, err := openServer(t.TempDir(), "")
	require.NoError(t, err)
	t.Cleanup(s.close)
	option := rueidis.ClientOption{InitAddress: []string{s.addr}}
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	session, err := relock.NewSession(t.Context(), client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close(context.Background()) })
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: option, KeyMajority: 1})
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return &guide{s, session, redislock.New(s.c), redsync.New(goredis.NewPool(s.c)), locker}
}

// section is what a lock protects.
type section = func(context.Context) error

func bothRedislock(ctx context.Context, rl *redislock.Client, session *relock.Session, work section) error {
	lock, err := rl.Obtain(ctx, "order:1", 30*time.Second, nil) // with your options, and refreshed as before
	if err != nil {
		return err
	}
	defer func() {
		if err := lock.Release(context.WithoutCancel(ctx)); err != nil {
			log.Printf("redislock: %v", err)
		}
	}()
	return relock.Do(ctx, session.Mutex("order:1"), work)
}

func bothRedsync(ctx context.Context, rs *redsync.Redsync, session *relock.Session, work section) error {
	mutex := rs.NewMutex("order:1") // with your options, and extended as before
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer func() {
		if _, err := mutex.UnlockContext(context.WithoutCancel(ctx)); err != nil {
			log.Printf("redsync: %v", err)
		}
	}()
	return relock.Do(ctx, session.Mutex("order:1"), work)
}

func bothRueidislock(ctx context.Context, locker rueidislock.Locker, session *relock.Session, work section) error {
	ctx, unlock, err := locker.WithContext(ctx, "order:1")
	if err != nil {
		return err
	}
	defer unlock()
	return relock.Do(ctx, session.Mutex("order:1"), work)
}

// shows fails unless the document shows the body of a function of this file, as it is.
func shows(t *testing.T, document, function string) {
	source, err := os.ReadFile("guides_test.go")
	require.NoError(t, err)
	body := regexp.MustCompile(`(?s)\nfunc ` + function + `\(.*?\n(.*?)\n}\n`).FindSubmatch(source)[1]
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	shown := regexp.MustCompile("(?m)^\t").ReplaceAllString(string(body), "")
	require.Contains(t, string(text), "```golang\n"+shown+"\n```")
}

// Work under both locks has both, and leaves none, also if it panics.
func TestBothLocksAreHeldAndReleased(t *testing.T) {
	g := openGuide(t, relock.WithPrefix("lock:"))
	for library, both := range map[string]func(context.Context, section) error{
		"redislock": func(ctx context.Context, work section) error {
			return bothRedislock(ctx, g.rl, g.session, work)
		},
		"redsync": func(ctx context.Context, work section) error {
			return bothRedsync(ctx, g.rs, g.session, work)
		},
		"rueidislock": func(ctx context.Context, work section) error {
			return bothRueidislock(ctx, g.locker, g.session, work)
		},
	} {
		t.Run(library, func(t *testing.T) {
			shows(t, "../docs/from-"+library+".md", "both"+strings.ToUpper(library[:1])+library[1:])
			theirs := "order:1"
			if library == "rueidislock" {
				theirs = "rueidislock:0:order:1"
			}
			held := func() int64 {
				n, err := g.server.c.Exists(context.Background(), theirs, "lock:order:1").Result()
				require.NoError(t, err)
				return n
			}
			for _, end := range []func() error{
				func() error { return nil },
				func() error { return errors.ErrUnsupported },
				func() error { panic("work") },
			} {
				during := int64(0)
				var err error
				func() {
					defer func() { _ = recover() }()
					err = both(t.Context(), func(context.Context) error {
						during = held()
						return end()
					})
				}()
				require.EqualValues(t, 2, during)
				if err != nil {
					require.ErrorIs(t, err, errors.ErrUnsupported)
				}
				require.Zero(t, held())
			}
		})
	}
}

// With WithSetNXOnExtend redsync takes a lock again that is gone everywhere, and says nothing.
func TestRedsyncTakesAgainOnExtend(t *testing.T) {
	g := openGuide(t)
	ctx := t.Context()
	for _, again := range []bool{false, true} {
		var options []redsync.Option
		if again {
			options = append(options, redsync.WithSetNXOnExtend())
		}
		mutex := g.rs.NewMutex("order:1", options...)
		require.NoError(t, mutex.LockContext(ctx))
		require.NoError(t, g.server.c.Del(ctx, "order:1").Err())
		ok, err := mutex.ExtendContext(ctx)
		require.Equal(t, again, ok)
		require.Equal(t, again, err == nil, "%v", err)
	}
}

// Without a prefix the libraries meet at one key.
func TestLibrariesAtEachOthersKey(t *testing.T) {
	g := openGuide(t)
	ctx := t.Context()
	ours := g.session.Mutex("order:1")
	refuses := func(theirs string) {
		require.ErrorIs(t, ours.Lock(ctx), relock.ErrNotLock, theirs)
		_, err := ours.TryLock(ctx)
		require.ErrorIs(t, err, relock.ErrNotLock, theirs)
		_, err = g.session.ForceUnlock(ctx, "order:1")
		require.ErrorIs(t, err, relock.ErrNotLock, theirs)
	}

	require.NoError(t, ours.Lock(ctx))
	again := &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Hour)}
	_, err := g.rl.Obtain(ctx, "order:1", time.Minute, again)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, redislock.ErrNotObtained)
	mutex := g.rs.NewMutex("order:1", redsync.WithTries(2))
	var taken *redsync.ErrTaken
	require.ErrorAs(t, mutex.LockContext(ctx), &taken)
	require.NoError(t, ours.Err())
	require.NoError(t, ours.Unlock(ctx))

	lock, err := g.rl.Obtain(ctx, "order:1", time.Minute, nil)
	require.NoError(t, err)
	refuses("redislock")
	require.NoError(t, lock.Release(ctx))

	require.NoError(t, mutex.LockContext(ctx))
	refuses("redsync")
	_, err = mutex.UnlockContext(ctx)
	require.NoError(t, err)
	require.NoError(t, ours.Lock(ctx))
	require.NoError(t, ours.Unlock(ctx))
}
