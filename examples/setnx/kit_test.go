package setnx

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/snippets"
	"github.com/relock-go/relock/relocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

const page = "../../docs/setnx.md"

// The page shows these locks as they are, and names each test once.
func TestPageShowsTheseLocks(t *testing.T) {
	snippets.Same(t, page, "go", 12, "*.go")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	tests, err := os.ReadFile("setnx_test.go")
	require.NoError(t, err)
	test := regexp.MustCompile(`\bTest[A-Z]\w*`)
	named := test.FindAllString(string(text), -1)
	require.NotEmpty(t, named)
	require.ElementsMatch(t, test.FindAllString(string(tests), -1), named)
}

// A process is a client and a session, with connections of their own.
type process struct {
	session *relock.Session
	client  rueidis.Client
}

// A world is a Redis and three processes.
type world struct {
	*relocktest.Redis
	a, b, c process
}

// compare runs a scenario in a bubble with a hand-written lock, and in another one with relock. The
// fault must show in the first, and not in the second.
func compare[Lock any](
	t *testing.T, byHand, withRelock Lock, scenario func(t *testing.T, w *world, lock Lock) (fault bool),
) {
	t.Helper()
	run := func(name string, lock Lock, want bool) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{Redis: relocktest.New(t)}
				for _, p := range []*process{&w.a, &w.b, &w.c} {
					p.session = w.Session()
					p.client = w.ClientOf(p.session)
					warm := p.session.Mutex("another") // from now on Redis has the scripts
					require.NoError(t, relock.Do(background, warm, func(context.Context) error { return nil }))
					for i := range 64 { // and the client has dialed all its connections, which keys choose
						require.NoError(t, p.client.Do(background, p.client.B().Exists().Key(fmt.Sprint(i)).Build()).Error())
					}
				}
				require.Equal(t, want, scenario(t, w, lock), "the fault shows")
			})
		})
	}
	run("by hand", byHand, true)
	run("relock", withRelock, false)
}

const key = "order:1"

// A try takes the lock for a process, and returns how to release it, or nil if the lock is taken.
type try func(ctx context.Context, p process) (unlock func(context.Context) error, err error)

func withRelock(ctx context.Context, p process) (func(context.Context) error, error) {
	session := p.session
	hold, err := session.Mutex("order:1").TryAcquire(ctx)
	switch {
	case errors.Is(err, relock.ErrTaken):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return func(ctx context.Context) error {
		err := hold.Unlock(ctx)
		return err
	}, nil
}

// byHand is a try with these functions, which get a value of their own.
func byHand(
	lock func(ctx context.Context, client rueidis.Client, key, value string) (bool, error),
	unlock func(ctx context.Context, client rueidis.Client, key, value string) error,
) try {
	return func(ctx context.Context, p process) (func(context.Context) error, error) {
		value := rand.Text()
		if ok, err := lock(ctx, p.client, key, value); err != nil || !ok {
			return nil, err
		}
		return func(ctx context.Context) error { return unlock(ctx, p.client, key, value) }, nil
	}
}

// must takes the lock, which is free.
func must(t *testing.T, lock try, p process) (unlock func(context.Context) error) {
	t.Helper()
	unlock, err := lock(background, p)
	require.NoError(t, err)
	require.NotNil(t, unlock, "the lock is taken")
	return unlock
}

// free reports whether p can take the lock.
func free(t *testing.T, lock try, p process) bool {
	t.Helper()
	unlock, err := lock(background, p)
	require.NoError(t, err)
	return unlock != nil
}
