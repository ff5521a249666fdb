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
	require.Equal(t, []*Lease{l}, r.ended())
	r.mini.SetTTL(l.Keys.Name, little)
	r.renew(due)
	r.renewed(l, sent, length)
	r.failed(l)
	require.False(t, r.gone(l))
	require.Equal(t, certain, l.Deadline.Load())
	require.Equal(t, little, r.mini.TTL(l.Keys.Name), "it was renewed although it was lost")
	require.Empty(t, r.All())
}

func TestReleasedLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	early, late := r.kept(), r.kept()
	r.Stop(early, transport.Background(), r.Clock.Now()+int64(length))
	due := r.after(third)
	require.Equal(t, []*Lease{late}, due, "only what is not being released")
	r.Stop(late, transport.Background(), r.Clock.Now()+int64(length)) // before its renewal is sent
	r.mini.SetTTL(late.Keys.Name, little)
	r.renew(due)
	require.Equal(t, little, r.mini.TTL(late.Keys.Name))
	r.Remove(early)
	r.Remove(late)
	r.Clock.Skip(length)
	require.Empty(t, r.ended(), "what was released is lost")
}

// The release of a lease is of no use once the lease has ended by itself.
func TestReleaseIsCancelledAtTheDeadline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, io := r.kept(), transport.Background()
	r.Stop(l, io, r.Clock.Now()+int64(length))
	require.Empty(t, r.after(length-little))
	require.NoError(t, io.Err())
	r.Clock.Skip(little)
	r.ended()
	require.Error(t, io.Err())
	again := transport.Background()
	r.Stop(l, again, r.Clock.Now()+int64(length))
	require.Error(t, again.Err(), "a release that begins after the deadline goes on")
}

// A release that is confirmed just when it is given up: the watchdog has taken the lease from its schedule.
func TestLeaseThatIsRemovedAtItsTimeStaysRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.kept()
	r.Stop(l, transport.Background(), r.Clock.Now()+int64(little))
	r.Clock.Skip(little)
	r.mu.Lock()
	due := r.deadlines.Take(r.Clock.Now())
	r.mu.Unlock()
	require.Equal(t, []*Lease{l}, due)
	r.Remove(l)
	require.Empty(t, r.expired(due))
	require.Empty(t, r.All())
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

// A claim is renewed to the length of the lease after a moment, and earlier if the last look was
// long ago. A fixed one is not renewed once more.
func TestClaimIsRenewedToItsLength(t *testing.T) {
	t.Parallel()
	const claim, soon = length / 6, 20 * time.Millisecond
	for what, c := range map[string]struct {
		fixed  bool
		looked time.Duration // before it was granted
	}{
		"fixed":           {true, 0},
		"just looked":     {false, 0},
		"looked long ago": {false, claim / 2},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			l := r.lease()
			l.Fixed, l.Renewed = c.fixed, !c.fixed
			r.acquire(l)
			l.Granted(claim, CertainUntil(claim, r.Clock.Now()-int64(c.looked)), true)
			r.mini.SetTTL(l.Keys.Name, claim)
			r.Add(l, 0)
			require.True(t, l.Fresh(r.Clock.Now()))
			require.Empty(t, r.after(soon-little))
			due := r.after(little)
			require.Equal(t, []*Lease{l}, due)
			r.renew(due)
			require.Greater(t, r.mini.TTL(l.Keys.Name), length-little)
			require.Greater(t, l.Deadline.Load(), r.Clock.Now()+int64(third))
			if c.fixed {
				for range 9 {
					require.Empty(t, r.after(length/10), "it is renewed once more")
				}
			}
		})
	}
}

// Renewals reach up to the end of the hold and not beyond it: nobody could end a dead process's
// hold before.
func TestLeaseDoesNotOutlastItsMaximalHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const most = length + third + little
	l := r.acquire(r.lease())
	r.Add(l, most)
	end := l.Sent + int64(most)
	for range 3 { // after a third, two and three
		due := r.after(third)
		require.Equal(t, []*Lease{l}, due)
		r.renew(due)
		left := time.Duration(end - r.Clock.Now())
		require.InDelta(t, min(length, left), r.mini.TTL(l.Keys.Name), float64(time.Second))
		require.LessOrEqual(t, l.Deadline.Load(), end)
	}
	require.Greater(t, l.Deadline.Load(), end-int64(little))
	require.Equal(t, []*Lease{l}, r.after(third), "a loss could go unnoticed")
	r.Clock.Skip(little)
	require.Equal(t, []*Lease{l}, r.ended())
	require.Equal(t, ErrMaxHold, l.cause())
}

// Leases of other lengths than the engine's are renewed when they are due themselves, and not
// with every one that is.
func TestLeasesOfSeveralLengths(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	of := func(d time.Duration) *Lease {
		l := r.lease()
		l.Length = d
		r.Add(r.acquire(l), 0)
		return l
	}
	short, usual, long := of(length/12), of(length), of(4*length)
	var renewed [3]int
	for range 12 * 12 { // each a twelfth of the short one's third
		for _, l := range r.after(length / 36 / 4) {
			switch l {
			case short:
				renewed[0]++
			case usual:
				renewed[1]++
			case long:
				renewed[2]++
			}
			r.renew([]*Lease{l})
			require.InDelta(t, l.Length, r.mini.TTL(l.Keys.Name), float64(little))
		}
	}
	require.InDelta(t, 36, renewed[0], 1)
	require.InDelta(t, 3, renewed[1], 1)
	require.Zero(t, renewed[2], "within a third of it")
	require.Empty(t, r.losses)
}

// One script renews leases of several lengths, each to its own.
func TestLeasesOfSeveralLengthsAreRenewedTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var all []*Lease
	for i := range 50 {
		l := r.lease()
		l.Length = length + time.Duration(i%4)*time.Minute
		r.Add(r.acquire(l), 0)
		all = append(all, l)
	}
	gone := all[7]
	r.mini.Del(gone.Keys.Name)
	before := r.mini.CommandCount()
	r.renew(r.after(third + little))
	require.Equal(t, before+1+1+50+49, r.mini.CommandCount(), "one script, one TIME, 50 looks, 49 new ends")
	require.Equal(t, ErrGone, r.lost(gone))
	for _, l := range all {
		if l != gone {
			require.InDelta(t, l.Length, r.mini.TTL(l.Keys.Name), float64(time.Second))
			require.Greater(t, l.Deadline.Load(), l.CertainUntil(l.Sent))
		}
	}
	require.Empty(t, r.losses)
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
		"bounded": {max: length, cause: ErrMaxHold},
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
