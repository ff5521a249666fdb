package locks_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A side is one of the two of a read-write lock.
type side string

const (
	reading side = "reader"
	writing side = "writer"
)

func (s side) of(rw *relock.RWMutex) relock.Locker {
	if s == reading {
		return rw.RLocker()
	}
	return rw
}

// rwPairs are the sides that exclude each other: who has the lock, and who wants it.
var rwPairs = [][2]side{{reading, writing}, {writing, reading}, {writing, writing}}

// eachPair runs f in a parallel subtest for each of rwPairs.
func eachPair(t *testing.T, f func(t *testing.T, holder, waiter side)) {
	t.Helper()
	t.Parallel()
	for _, pair := range rwPairs {
		t.Run(fmt.Sprintf("%s then %s", pair[0], pair[1]), func(t *testing.T) {
			t.Parallel()
			f(t, pair[0], pair[1])
		})
	}
}

// eachSide runs f in a parallel subtest for either side, with the one that excludes it.
func eachSide(t *testing.T, f func(t *testing.T, holder, other side)) {
	t.Helper()
	t.Parallel()
	for holder, other := range map[side]side{reading: writing, writing: reading} {
		t.Run(string(holder), func(t *testing.T) {
			t.Parallel()
			f(t, holder, other)
		})
	}
}

func init() { kit.Roles["rw-client"] = rwClient }

// rwClient is a process that uses one read-write lock as its input tells. Each command
// is about one of its locks, which is named by its side and a number, each through a
// value of its own; those with an odd number have an owner:
//
//	lock reader1    "locked reader1"
//	wait reader1    the same, but unlocks at once; it goes on meanwhile
//	state reader1   "state reader1 <is Done closed> <is Err ErrLost>"
//	unlock reader1  "unlocked reader1 <no error> <ErrLost>"
//
// A hold that is lost says "lost reader1" on its own.
func rwClient(args []string) { // address, lease
	lease, err := time.ParseDuration(args[1])
	kit.ChildCheck(err)
	s, _ := kit.ChildSession(args[0], relock.WithLease(lease))
	locks, contexts := make(map[string]relock.Locker), make(map[string]context.Context)
	fmt.Println("ready", s.ID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		verb, which, _ := strings.Cut(in.Text(), " ")
		l, ctx := locks[which], contexts[which]
		if l == nil {
			l, ctx = side(which[:len(which)-1]).of(s.RWMutex("lock")), kit.Background
			if which[len(which)-1]%2 == 1 {
				ctx = s.NewContext(ctx)
			}
			locks[which], contexts[which] = l, ctx
		}
		switch verb {
		case "lock":
			kit.ChildCheck(l.Lock(ctx))
			fmt.Println("locked", which)
			done := l.Done()
			go func() {
				<-done
				if errors.Is(l.Err(), relock.ErrLost) {
					fmt.Println("lost", which)
				}
			}()
		case "wait":
			go func() {
				kit.ChildCheck(l.Lock(ctx))
				fmt.Println("locked", which)
				kit.ChildCheck(l.Unlock(ctx))
			}()
		case "state":
			fmt.Println("state", which, kit.IsClosed(l.Done()), errors.Is(l.Err(), relock.ErrLost))
		case "unlock":
			err := l.Unlock(ctx)
			fmt.Println("unlocked", which, err == nil, errors.Is(err, relock.ErrLost))
		}
	}
}

// rwChild starts a rwClient.
func rwChild(t testing.TB, at kit.Addressed, lease time.Duration) *redistest.Proc {
	t.Helper()
	p := redistest.Child(t, "rw-client", at.Addr(), lease.String())
	_, err := p.Expect("ready ", kit.Soon)
	require.NoError(t, err)
	return p
}

// wants waits until a reader or writer, which waits in Redis, is known there to do so.
func wants(t testing.TB, s *redistest.Server, who side) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "a "+string(who)+" to wait", func() bool { return intends(t, s, who) })
}

// intends reports whether Redis knows of a waiting reader or writer.
func intends(t testing.TB, s *redistest.Server, who side) bool {
	t.Helper()
	reply, err := s.Do("ZRANGE", "relock_rwqueue:{lock}", "0", "-1")
	require.NoError(t, err)
	for _, id := range reply.([]any) {
		if strings.HasSuffix(id.(string), ":write") == (who == writing) {
			return true
		}
	}
	return false
}
