package lease

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

func TestLeaseIsRenewedAThirdAfterItsLastSuccess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.kept()
	for range 3 {
		r.mini.SetTTL(l.Keys.Name, little)
		require.Empty(t, r.after(third-little), "before a third of the lease")
		due := r.after(2 * little)
		require.Equal(t, []*Lease{l}, due)
		before := r.Clock.Now()
		r.renew(due)
		require.Greater(t, r.mini.TTL(l.Keys.Name), length-little)
		require.GreaterOrEqual(t, l.Deadline.Load(), l.CertainUntil(before))
		require.LessOrEqual(t, l.Deadline.Load(), l.CertainUntil(r.Clock.Now()), "it is certain for longer than its lease")
	}
	require.Empty(t, r.losses)
}

func TestLeasesDueSoonAreRenewedTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.kept()
	r.Clock.Skip(length/12 - little)
	soon := r.kept()
	r.Clock.Skip(2 * little)
	later := r.kept()
	require.ElementsMatch(t, []*Lease{first, soon}, r.after(third-length/12-little))
	require.Equal(t, []*Lease{later}, r.after(length/12+little))
}

func TestRenewalThatFailsIsTriedAgainSoon(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.kept()
	due := r.after(third)
	certain := l.Deadline.Load()
	r.mini.SetError("LOADING Redis is loading the dataset in memory")
	for range 3 {
		r.renew(due)
		require.Equal(t, certain, l.Deadline.Load(), "it has become certain without an answer")
		due = r.after(length / 20)
		require.Equal(t, []*Lease{l}, due)
	}
	r.mini.SetError("")
	r.renew(due)
	require.Greater(t, l.Deadline.Load(), certain)
	require.Empty(t, r.losses)
}

func TestLeaseThatIsGoneIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.kept()
	r.mini.Del(l.Keys.Name)
	r.renew(r.after(third))
	require.Equal(t, ErrGone, r.lost(l))
}

// A renewal that was answered after the deadline, and one that was not sent yet.
func TestLateRenewalRevivesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.kept()
	due := r.after(third)
	sent, certain := r.Clock.Now(), l.Deadline.Load()
	r.Clock.Skip(length)
	expired, _ := r.advance()
	require.Equal(t, []*Lease{l}, expired)
	r.mini.SetTTL(l.Keys.Name, little)
	r.renew(due)
	require.False(t, r.finish(l, sent))
	require.Equal(t, certain, l.Deadline.Load())
	require.Equal(t, little, r.mini.TTL(l.Keys.Name), "it was renewed although it was lost")
	require.Empty(t, r.All())
}

func TestReleasedLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	early, late := r.kept(), r.kept()
	r.Stop(early, transport.Background(), length)
	due := r.after(third)
	require.Equal(t, []*Lease{late}, due, "only what is not being released")
	r.Stop(late, transport.Background(), length) // before its renewal is sent
	r.mini.SetTTL(late.Keys.Name, little)
	r.renew(due)
	require.Equal(t, little, r.mini.TTL(late.Keys.Name))
	r.Remove(early)
	r.Remove(late)
	r.Clock.Skip(length)
	expired, _ := r.advance()
	require.Empty(t, expired, "what was released is lost")
}

// The release of a lease is of no use once the lease has ended by itself.
func TestReleaseIsCancelledAtTheDeadline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, io := r.kept(), transport.Background()
	r.Stop(l, io, length)
	require.Empty(t, r.after(length-little))
	require.NoError(t, io.Err())
	r.Clock.Skip(little)
	r.advance()
	require.Error(t, io.Err())
	again := transport.Background()
	r.Stop(l, again, length)
	require.Error(t, again.Err(), "a release that begins after the deadline goes on")
}

func TestFixedLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.lease()
	l.Fixed = true
	r.Add(r.acquire(l), 0)
	for range 9 {
		require.Empty(t, r.after(length/10))
	}
}

func TestClaimIsRenewedToItsLengthAtOnceAlsoIfFixed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.lease()
	l.Fixed, l.Claim = true, true
	r.acquire(l)
	l.Deadline.Store(r.Clock.Now() + int64(2*little)) // a claim is short
	r.mini.SetTTL(l.Keys.Name, 2*little)
	r.Add(l, 0)
	due := r.after(0)
	require.Equal(t, []*Lease{l}, due)
	r.renew(due)
	require.Greater(t, r.mini.TTL(l.Keys.Name), length-little)
	require.Greater(t, l.Deadline.Load(), r.Clock.Now()+int64(third))
	for range 9 {
		require.Empty(t, r.after(length/10), "it is renewed once more")
	}
}

func TestLeaseIsNotRenewedAfterTheEndOfItsHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bounded, limited := r.acquire(r.lease()), r.kept()
	r.Add(bounded, third+length/6)
	r.Limit(limited, r.Clock.Now()+int64(third-little))
	due := r.after(third)
	require.Equal(t, []*Lease{bounded}, due, "the other's hold is over by then")
	r.renew(due)
	for range 6 {
		require.Empty(t, r.after(length/10))
	}
}

// A watchdog that runs tells of each loss, and why.
func TestLossIsReportedWithItsCause(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		fixed bool
		max   time.Duration
		cause error
	}{
		"renewed": {cause: ErrExpired},
		"fixed":   {fixed: true, cause: ErrEnded},
		"bounded": {max: length, cause: ErrEnded},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			l := r.lease()
			l.Fixed = c.fixed
			r.Add(r.acquire(l), c.max)
			r.start()
			require.Empty(t, r.losses)
			r.Clock.Skip(length) // as if the process had been frozen
			require.Equal(t, c.cause, r.lost(l))
		})
	}
}

func TestDeadlineIsKeptWhileRedisDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := rigOn(t, server.Client(t), time.Second)
	l := r.acquire(r.lease())
	require.NoError(t, server.Freeze())
	r.Add(l, 0)
	r.start()
	require.Equal(t, ErrExpired, r.lost(l))
	require.GreaterOrEqual(t, r.Clock.Now(), l.Deadline.Load()-Early, "it is lost before its deadline")
	require.Equal(t, l.CertainUntil(l.Sent), l.Deadline.Load(), "the deadline has moved without an answer")
	require.NoError(t, server.Thaw())
}
