package faults_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Another user of the same Redis, who may publish on every session's channel and knows its id, and
// who writes nonsense to the keys beside a lock.

// waitsFor has a session wait for its lock l, and returns what Lock will return.
func waitsFor(t testing.TB, s *relock.Session, l relock.Locker) <-chan error {
	t.Helper()
	locked := kit.Async(func() error { return l.Lock(kit.Background) })
	kit.Waits(t, s, "lock")
	return locked
}

func send(t testing.TB, client rueidis.Client, commands ...[]string) {
	t.Helper()
	var all rueidis.Commands
	for _, c := range commands {
		all = append(all, client.B().Arbitrary(c[0]).Keys(c[1]).Args(c[2:]...).Build())
	}
	for _, r := range client.DoMulti(kit.Background, all...) {
		require.NoError(t, r.Error())
	}
}

// tokenIsReal checks that the hold of l has the token that its Redis has issued, as an integer on
// its clock that is larger than the last one, and returns it; 0 if the type has none.
func tokenIsReal(t testing.TB, client rueidis.Client, l relock.Locker, key string, last int64) int64 {
	t.Helper()
	f, ok := l.(kit.FencedLocker)
	if !ok {
		return 0
	}
	text, err := client.Do(kit.Background, client.B().Get().Key("relock_fence:{"+key+"}").Build()).ToString()
	require.NoError(t, err)
	token, _, _ := strings.Cut(text, " ")
	require.Equal(t, strconv.FormatInt(f.FencingToken(), 10), token)
	require.Greater(t, f.FencingToken(), last)
	require.Less(t, f.FencingToken(), time.Now().Add(time.Minute).UnixMilli()*1024)
	return f.FencingToken()
}

// forgeries are messages of every kind to a session, with ids of holds that it may have.
func forgeries(session string) (all []string) {
	one := session + ":1"
	for n := range 300 {
		id := fmt.Sprintf("%s:%d", session, n+1)
		all = append(all, "granted "+id+" 1234567 5000 lock", "granted "+id+":write 1234567 5000 lock", "poll "+id, "lost "+id+" kept", "wanted "+id)
	}
	for _, verb := range []string{"granted", "lost", "poll", "wanted", "GRANTED", "nonsense", "", "\x00\xff\r\n"} {
		for _, rest := range []string{
			"", " ", "  ", " " + session, " " + one, " " + one + " ", " " + one + " lock", " " + one + " 5", " " + one + " 5 5000", " " + one + " 5 5000 ",
			" " + one + " -5 5000 lock", " " + one + " 0 5000 lock", " " + one + " 5 -5000 lock", " " + one + " 5 0 lock", " " + one + " nan inf lock",
			" " + one + " 9223372036854775807 9223372036854775807 lock", " " + one + " 99999999999999999999 1e400 lock", " :1 5 5000 lock",
			" " + session + ":99999999999999999999999 5 5000 lock", " " + session + ":-1 5 5000 lock", " * 5 5000 lock", " \x00\xff \xfe \xfd lock",
		} {
			all = append(all, verb+rest)
		}
	}
	return all
}

// A user with rights for other names could end holds, and hand the locks of others to a session
// that waits, with a token of its choice, since the ids of holds could be guessed.
func TestForgedMessagesGrantAndLoseNothing(t *testing.T) {
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 3, 0)
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		forge(t, k, server.Client, false)
		forge(t, k, cluster.Client, redistest.Has(t, redistest.ShardedPubSub))
	})
}

type connects func(testing.TB, ...func(*rueidis.ClientOption)) rueidis.Client

// two returns two sessions whose names have a prefix.
func two(t testing.TB, connect connects, prefix string) (a, b *relock.Session) {
	named := relock.WithPrefix(prefix)
	return kit.SessionOn(t, connect(t), named), kit.SessionOn(t, connect(t), named)
}

func forge(t *testing.T, k *kit.LockKind, connect connects, sharded bool) {
	attacker, key := connect(t), k.Name+" lock"
	victim, owner := two(t, connect, k.Name+" ")
	kept, held, waits := victim.Mutex("kept"), k.Holder(owner), k.Of(victim)
	kit.Lock(t, kit.Background, kept)
	kit.Lock(t, kit.Background, held)
	publish := func() {
		var all [][]string
		for _, m := range forgeries(victim.ID()) {
			m = strings.NewReplacer(" lock", " "+key, " kept", " "+k.Name+" kept").Replace(m)
			all = append(all, []string{"PUBLISH", "relock_session:" + victim.ID(), m})
			if sharded {
				all = append(all, []string{"SPUBLISH", "relock_grant:{" + key + "}:" + victim.ID(), m})
			}
		}
		send(t, attacker, all...)
		heardAll(t, victim, owner)
	}
	publish()
	locked := waitsFor(t, victim, waits)
	publish()
	require.NoError(t, held.Err())
	require.Empty(t, locked, "somebody else's lock is granted")
	require.NoError(t, kept.Err(), "a hold is lost")
	kit.Unlock(t, kit.Background, held)
	require.NoError(t, kit.Receive(t, locked, "the waiter to get in"))
	tokenIsReal(t, attacker, waits, key, 1234567)
	kit.Unlock(t, kit.Background, waits)
	kit.Unlock(t, kit.Background, kept)
}

// heardAll returns when a session has heard what was published for it.
func heardAll(t testing.TB, s, other *relock.Session) {
	t.Helper()
	m := s.Mutex("marker")
	kit.Lock(t, kit.Background, m)
	_, err := other.ForceUnlock(kit.Background, "marker")
	require.NoError(t, err)
	kit.Receive(t, m.Done(), "the last message")
	require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
}

// Early grants for holds that nobody has were kept for good, however large: 102 MB.
func TestHugeMessagesDoNotStayInMemory(t *testing.T) { // not parallel: it measures the process
	server := redistest.Start(t)
	do(t, server, "CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0")
	other := kit.NewSession(t, server)
	const messages, size, most = 400, 256 << 10, 4 << 20
	for kind, format := range map[string]string{ // %[1]d is a number of its own, %[2]s long, %[3]s the session
		"unknown verb":           "%[1]d%[2]s",
		"granted to a long id":   "granted %[1]d%[2]s 5 5000 lock",
		"granted a long key":     "granted %[3]s:%[1]d 5 5000 %[2]s",
		"granted with a tail":    "granted %[3]s:%[1]d 5 5000 lock %[2]s",
		"granted an unknown id":  "granted %[3]s:%[1]d 1234567 5000 %.1000[2]s", // it sends a release
		"granted a hold to come": "granted %[3]s:%[1]d999999999999 5 5000 lock%[2]s",
		"lost by a long id":      "lost %[1]d%[2]s lock",
		"lost a long key":        "lost %[3]s:%[1]d %[2]s",
		"poll for a long id":     "poll %[1]d%[2]s",
		"wanted by a long id":    "wanted %[1]d%[2]s",
	} {
		t.Run(kind, func(t *testing.T) {
			s := kit.NewSession(t, server)
			m := s.Mutex(kind)
			kit.Lock(t, kit.Background, m)
			id := s.ID()
			heardAll(t, s, other)
			before := kit.HeapInUse()
			for n := range messages {
				do(t, server, "PUBLISH", "relock_session:"+id, fmt.Sprintf(format, n+1000, strings.Repeat("7", size), id))
			}
			heardAll(t, s, other)
			require.Less(t, kit.HeapInUse()-before, int64(most))
			redistest.Eventually(t, kit.Soon, "memory to be free again", func() bool { return kit.HeapInUse()-before < most/4 })
			kit.Unlock(t, kit.Background, m)
		})
	}
}

// Each grant for a hold id that no call has was to be released, whatever their number: a flood of
// them took 350 MB.
func TestForgedGrantsDoNotPileUp(t *testing.T) { // not parallel: it measures the process
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	forger := server.Client(t)
	heardAll(t, s, other)
	before := kit.HeapInUse()
	for n := range 100 {
		var some [][]string
		for i := range 500 {
			grant := fmt.Sprintf("granted %s:%d 5 5000 %s%d", s.ID(), 1000+500*n+i, strings.Repeat("n", 1000), i)
			some = append(some, []string{"PUBLISH", "relock_session:" + s.ID(), grant})
		}
		send(t, forger, some...)
		if n%20 == 0 {
			require.Less(t, kit.HeapInUse()-before, int64(64<<20))
		}
	}
	heardAll(t, s, other)
	m := s.Mutex("lock")
	kit.Lock(t, kit.Background, m)
	kit.Unlock(t, kit.Background, m)
}

// Unlock returned ErrLost for an intact hold, or an error, and the lock stayed taken for its lease.
func TestDamagedKeyBesideALockStopsNoRelease(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		server := redistest.Start(t)
		client := server.Client(t)
		for _, key := range []string{
			"relock_queue", "relock_rwqueue", "relock_rdqueue", "relock_fence",
		} {
			for _, waiter := range []bool{false, true} {
				prefix := fmt.Sprint(key, waiter, " ")
				a, b := two(t, server.Client, prefix)
				held, waits := k.Holder(a), k.Of(b)
				kit.Lock(t, kit.Background, held)
				var locked <-chan error
				if waiter {
					locked = waitsFor(t, b, waits)
				}
				damaged := key + ":{" + prefix + "lock}"
				send(t, client, []string{"DEL", damaged}, []string{"RPUSH", damaged, "x"})
				require.NoError(t, held.Unlock(kit.Background))
				if k.Sha != kit.PermitSHA { // that has no hash: its waiter gets the only permit
					for id := range kit.HashOf(t, client, prefix+"lock") {
						require.NotContains(t, id, a.ID(), "the lock is still held")
					}
				}
				if waiter {
					if err := kit.Receive(t, locked, "the waiter to learn of it"); err == nil {
						kit.Unlock(t, kit.Background, waits)
					} else {
						require.ErrorIs(t, err, relock.ErrNotLock)
					}
				}
				require.False(t, kit.Exists(t, client, prefix+"lock"))
			}
		}
	})
}

// With "inf" for the last token a Lock had the lock without knowing, and waited for itself; others
// failed for ever.
func TestFenceThatIsNoTokenCountsAsNone(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		server := redistest.Start(t)
		client := server.Client(t)
		for _, value := range []string{
			"inf", "-inf", "nan", "1e30", "1e400", "garbage", "", "-5", "0x10", "1.5", "0", "1e15", " 7 ", "99999999999999999999",
		} {
			prefix := value + " "
			a, b := two(t, server.Client, prefix)
			held, waits := k.Holder(a), k.Of(b)
			spoil := func(last int64) {
				redistest.Eventually(t, kit.Soon, "the clock to pass the last token", func() bool {
					return last < time.Now().UnixMilli()*1024
				})
				send(t, client, []string{"SET", "relock_fence:{" + prefix + "lock}", value})
			}
			spoil(0)
			kit.Lock(t, kit.Background, held)
			last := tokenIsReal(t, client, held, prefix+"lock", 0)
			spoil(last)
			locked := waitsFor(t, b, waits)
			kit.Unlock(t, kit.Background, held)
			require.NoError(t, kit.Receive(t, locked, "the waiter to get in"))
			last = tokenIsReal(t, client, waits, prefix+"lock", last)
			kit.Unlock(t, kit.Background, waits)
			spoil(last)
			kit.Lock(t, kit.Background, held)
			tokenIsReal(t, client, held, prefix+"lock", last)
			kit.Unlock(t, kit.Background, held)
			require.False(t, kit.Exists(t, client, prefix+"lock"))
		}
	})
}
