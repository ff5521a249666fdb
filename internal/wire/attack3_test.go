package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGuardKeepsDragonflyFlags(t *testing.T) {
	require.True(t, strings.HasPrefix(guarded("true", "--!df flags=allow-undeclared-keys\nreturn 1"), "--!df"))
}

// A permit whose lease has ended, while another one keeps the key.
func TestGuardOfAnEndedPermit(t *testing.T) {
	r := newRig(t)
	short, long := r.lease(Semaphore, 1), r.lease(Semaphore, 2)
	short.Length = 50 * time.Millisecond
	r.take(short)
	r.take(long)
	time.Sleep(200 * time.Millisecond)
	err := r.Guarded(ctx0, short, "return redis.call('incr', KEYS[1])", []string{"{a}:n"}, nil).Error()
	assert.Error(t, err, "the permit has ended")
	_, holders, _ := strings.Cut(strings.Join(r.texts("ZRANGE", "a", "0", "-1"), " "), "permits")
	t.Log(holders)
}

// Odd texts.
func TestOddScripts(t *testing.T) {
	r := newRig(t)
	l := r.lease(Plain, 1)
	r.take(l)
	for _, c := range [][2]string{
		{"return 1 -- end", "1"}, {"#!lua\nreturn 1", "1"}, {"#!lua name=x flags=no-writes\nreturn 1", ""}, {"#!lua flags=no-writes\nreturn KEYS[1]", "k"}, {"local KEYS = KEYS return KEYS[1]", "k"},
		{"do return ARGV[1] end return 2", "a\x00\xff"}, {"return #KEYS .. #ARGV", "12"}, {"-- c\n--[[ x ]] return _G.KEYS[1]", "k"},
		{"return loadstring('return KEYS[1]')()", "k"}, {"KEYS[1] = 'q' return KEYS[1]", "q"},
		{"#!lua\r\nreturn 1", "1"}, {"", ""}, {"return ...", ""},
		{strings.Repeat("local x = 1 ", 199) + "return KEYS[1]", "k"},
	} {
		got, err := r.Guarded(ctx0, l, c[0], []string{"k"}, []string{"a\x00\xff", "b"}).ToString()
		plain, perr := r.Do("EVAL", c[0], "1", "k", "a\x00\xff", "b").ToString()
		if got != plain || (err == nil) != (perr == nil) {
			t.Logf("DIFF %.60q: %q %v, plain %q %v", c[0], got, err, plain, perr)
		}
	}
	many := make([]string, 20000)
	for i := range many {
		many[i] = "k"
	}
	t.Log(r.Guarded(ctx0, l, "return #KEYS + #ARGV", many, many).AsInt64())
}

// A live writer behind 1,000 dead ones holds up new readers.
func TestReaderBehindDeadWriters(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.take(r.reader(1))
		r.queues(r.writer(2))
		dead("relock_rwqueue:{a}", 1000, ":write")(r)
		got := r.asks(r.reader(3))
		require.False(t, got.Granted, "it has passed a writer that waits")
	})
}

func TestReaderBehindDeadWriters999(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.take(r.reader(1))
		r.queues(r.writer(2))
		dead("relock_rwqueue:{a}", 999, ":write")(r)
		got := r.asks(r.reader(3))
		require.False(t, got.Granted, "it has passed a writer that waits")
	})
}

// TryLock of a free lock does not pass a waiter that is there, behind dead ones.
func TestTryPassesWaitersBehindDeadOnes(t *testing.T) {
	for _, k := range []Kind{Plain, Fair, Write, Semaphore} {
		for _, n := range []int{900, 1100} {
			r := newRig(t)
			suffix := k.Suffix()
			if k == Semaphore {
				suffix = " 1 5000"
			}
			lease := func(n int) *Ref {
				l := r.lease(k, n)
				l.Permits = min(l.Permits, 1)
				return l
			}
			r.take(lease(1))
			r.present("y")
			r.queues(of("y", lease(2)))
			dead(queueOfKind(k), n, suffix)(r)
			r.must("PEXPIRE", "a", "1")
			time.Sleep(20 * time.Millisecond)
			if r.tries(lease(3)).Granted {
				t.Error(k, n, "TryLock has passed a waiter that is there")
			}
		}
	}
}

func TestReaderBehindDeadWriters1100(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.take(r.reader(1))
		r.queues(r.writer(2))
		dead("relock_rwqueue:{a}", 1100, ":write")(r)
		require.False(t, r.asks(r.reader(3)).Granted, "it has passed a writer that waits")
	})
}
