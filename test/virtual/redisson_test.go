package virtual_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/memredis"
)

// A redisson locks as a client of Redisson does, for the lock a: it tries, subscribes, and tries again, and then
// whenever it is told of a release. The module interop has the real one.
type redisson struct {
	w       *world
	kind    string // of lock, in redissons
	client  rueidis.Client
	sub     rueidis.DedicatedClient
	id      string
	channel string
	told    chan struct{}
}

// redissons are what the types of locks run to try and to unlock. KEYS: lock, queue of RFairLock. ARGV: id, channel.
var redissons = map[string][2]string{
	"lock": {
		`if redis.call('exists', KEYS[1]) == 0 then return take(ARGV[1]) end return redis.call('pttl', KEYS[1])`,
		`redis.call('hdel', KEYS[1], ARGV[1]) redis.call('publish', ARGV[2], '0') return 0`,
	},
	"fair": {
		`local first = redis.call('lindex', KEYS[2], 0)
		if redis.call('exists', KEYS[1]) == 0 and (not first or first == ARGV[1]) then
			redis.call('lpop', KEYS[2])
			return take(ARGV[1])
		end
		redis.call('lrem', KEYS[2], 1, ARGV[1]) redis.call('rpush', KEYS[2], ARGV[1])
		return redis.call('pttl', KEYS[1])`,
		`redis.call('hdel', KEYS[1], ARGV[1])
		local first = redis.call('lindex', KEYS[2], 0)
		if first then redis.call('publish', ARGV[2] .. ':' .. first, '0') end
		return 0`,
	},
	"write": {
		`if redis.call('exists', KEYS[1]) == 0 then return take(ARGV[1] .. ':write', 'mode', 'write') end
		return redis.call('pttl', KEYS[1])`,
		`redis.call('del', KEYS[1]) redis.call('publish', ARGV[2], '1') return 0`,
	},
	"read": {
		`local mode = redis.call('hget', KEYS[1], 'mode')
		if mode ~= 'read' and redis.call('exists', KEYS[1]) == 1 then return redis.call('pttl', KEYS[1]) end
		redis.call('set', '{a}:' .. ARGV[1] .. ':rwlock_timeout:1', '1', 'px', '30000')
		return take(ARGV[1], 'mode', 'read')`,
		`redis.call('hdel', KEYS[1], ARGV[1]) redis.call('del', '{a}:' .. ARGV[1] .. ':rwlock_timeout:1')
		if redis.call('hlen', KEYS[1]) == 1 then redis.call('del', KEYS[1]) end
		redis.call('publish', ARGV[2], '0')
		return 0`,
	},
}

const redissonTakes = `local function take(field, ...)
	redis.call('hset', KEYS[1], field, '1', ...)
	redis.call('pexpire', KEYS[1], '30000')
	return -1
end
`

// redisson starts a client that is some way from Redis.
func (w *world) redisson(kind string, oneWay time.Duration) *redisson {
	host := memredis.Of(w.redis[0], w.redis[0].Session())
	host.Delay(oneWay)
	r := &redisson{w: w, kind: kind, told: make(chan struct{}, 1)}
	r.id, r.channel = "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47", "redisson_lock__channel:{a}"
	if kind == "read" || kind == "write" {
		r.channel = "redisson_rwlock:{a}"
	}
	var err error
	r.client, err = host.Client()
	require.NoError(w.t, err)
	listener, err := host.Client()
	require.NoError(w.t, err)
	sub, release := listener.Dedicate()
	r.sub = sub
	sub.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		select {
		case r.told <- struct{}{}:
		default:
		}
	}})
	w.t.Cleanup(func() { release(); listener.Close(); r.client.Close() })
	return r
}

func (r *redisson) run(step int) int64 {
	n, err := r.client.Do(background, r.client.B().Eval().Script(redissonTakes+redissons[r.kind][step]).Numkeys(2).
		Key("a", "redisson_lock_queue:{a}").Arg(r.id, r.channel).Build()).AsInt64()
	require.NoError(r.w.t, err)
	return n
}

// listen subscribes to the client's channel, and returns that.
func (r *redisson) listen() (channel string) {
	channel = r.channel
	if r.kind == "fair" {
		channel += ":" + r.id
	}
	require.NoError(r.w.t, r.sub.Do(background, r.sub.B().Subscribe().Channel(channel).Build()).Error())
	return channel
}

func (r *redisson) Lock(context.Context) error {
	if r.run(0) < 0 {
		return nil
	}
	channel := r.listen()
	for ttl := r.run(0); ttl >= 0; ttl = r.run(0) {
		select {
		case <-r.told:
		case <-time.After(time.Duration(ttl) * time.Millisecond):
		}
	}
	go func() { _ = r.sub.Do(background, r.sub.B().Unsubscribe().Channel(channel).Build()).Error() }()
	return nil
}

func (r *redisson) Unlock(context.Context) error {
	r.run(1)
	return nil
}

// A client of Redisson has its share beside processes of relock at the same distance from Redis, and they beside it.
// Beside one process or two that are nearer, and whose goroutines pass the lock on, it has a turn now and then.
func TestDistantRedissonHasItsShare(t *testing.T) {
	for _, kinds := range [][2]string{
		{"Mutex", "lock"}, {"FairMutex", "lock"}, {"writer", "write"}, {"writer", "read"}, {"reader", "write"},
	} {
		for _, c := range []struct {
			processes, goroutines int
			oneWay                time.Duration
		}{
			{2, 1, 200 * time.Microsecond}, {2, 1, 4 * time.Millisecond}, {2, 1, 20 * time.Millisecond},
			{1, 4, time.Millisecond}, {2, 4, time.Millisecond},
		} {
			t.Run(fmt.Sprint(kinds, c), func(t *testing.T) {
				alone(t, typeNamed(kinds[0]), func(t *testing.T, w *world) {
					ps := []*process{w.process(), w.process()}[:c.processes]
					far := w.redisson(kinds[1], c.oneWay)
					crowd := crowdFor(time.Second, 4*time.Millisecond)
					for _, p := range ps {
						if c.goroutines == 1 {
							p.delay(c.oneWay)
						}
						crowd.join(c.goroutines, p, w.typ)
					}
					theirs, _ := crowd.turns(far)
					ours, sum := crowd.others()
					t.Log(theirs, ours)
					least := 5
					if c.goroutines == 1 {
						least = (sum + theirs) / 3 / 10 // a tenth of an even share
						require.Greater(t, slices.Min(ours), least)
					}
					require.Greater(t, theirs, least)
				})
			})
		}
	}
}

// A client of Redisson listens and does not come, since it stands still: it costs a busy process little.
func TestFrozenRedissonCostsABusyProcessLittle(t *testing.T) {
	for _, kinds := range [][2]string{{"Mutex", "lock"}, {"writer", "write"}} {
		for _, processes := range []int{1, 2} {
			t.Run(fmt.Sprint(kinds, processes), func(t *testing.T) {
				alone(t, typeNamed(kinds[0]), func(t *testing.T, w *world) {
					const section, length = 4 * time.Millisecond, 10 * time.Second
					ps := []*process{w.process(), w.process()}[:processes]
					w.redisson(kinds[1], time.Millisecond).listen()
					crowd := crowdFor(length, section)
					for _, p := range ps {
						crowd.join(4, p, w.typ)
					}
					_, ours := crowd.others()
					require.Greater(t, ours, int(length/section)/2)
				})
			})
		}
	}
}

// An idle subscription of relock counted as a waiter of Redisson: TryLock was refused a lock that nobody had.
func TestFreeLockIsRefusedToNobody(t *testing.T) {
	for _, kinds := range [][2]string{
		{"Mutex", "lock"}, {"FairMutex", "fair"}, {"writer", "write"}, {"writer", "read"}, {"Redlock", "lock"},
	} {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) {
			alone(t, typeNamed(kinds[0]), func(t *testing.T, w *world) {
				p, other := w.process(), w.process()
				theirs := w.redisson(kinds[1], time.Millisecond)
				for range 10 {
					_ = theirs.Lock(background)
					time.AfterFunc(50*time.Millisecond, func() { _ = theirs.Unlock(background) })
					l := p.held() // waits, and listens
					require.NoError(t, l.Unlock(background))
					for range 20 {
						for _, p := range []*process{other, p} {
							l := p.lock()
							ok, err := l.TryLock(background)
							require.NoError(t, err)
							require.True(t, ok)
							require.NoError(t, l.Unlock(background))
						}
					}
				}
			})
		})
	}
}

func typeNamed(name string) *lockType {
	for i := range lockTypes {
		if lockTypes[i].name == name {
			return &lockTypes[i]
		}
	}
	panic(name)
}

// Redisson's turn was due by a clock that has stepped back since. It has its turns all the same,
// beside processes that always wait.
func TestRedissonHasItsTurnsAfterAStepBack(t *testing.T) {
	for _, typ := range []*lockType{&lockTypes[0], fair} {
		for _, step := range []time.Duration{-5 * time.Second, -time.Hour} {
			t.Run(fmt.Sprint(typ.name, step), func(t *testing.T) {
				alone(t, typ, func(t *testing.T, w *world) {
					ps := []*process{w.process(), w.process()}
					theirs := w.redisson("lock", 2*time.Millisecond)
					crowd := crowdFor(20*time.Second, 4*time.Millisecond)
					for _, p := range ps {
						p.delay(2 * time.Millisecond)
						crowd.join(2, p, typ)
					}
					time.AfterFunc(3*time.Second, func() { w.redis[0].StepClock(step) })
					_, longest := crowd.turns(theirs)
					crowd.others()
					require.Less(t, longest, 3*time.Second)
				})
			})
		}
	}
}
