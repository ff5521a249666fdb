package lease

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

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
	require.Equal(t, []loss{{l, lockerr.ErrGone}}, r.losses)
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
	r.renewed(l, sent, &l.Ref, false)
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

	// A release is confirmed just when it is given up: the watchdog has taken the lease from its schedule.
	l = r.kept()
	r.Stop(l, transport.Background(), r.Clock.Now()+int64(little))
	r.Clock.Skip(little)
	due := r.deadlines.Take(r.Clock.Now())
	require.Equal(t, []*Lease{l}, due)
	r.Remove(l)
	require.Empty(t, r.expired(due))
	require.Empty(t, r.All())
}

// A grant is renewed to the length of the lease after a moment, and earlier if the last poll was
// long ago. A fixed one is not renewed once more.
func TestGrantIsRenewedToItsLength(t *testing.T) {
	t.Parallel()
	const grant, soon = length / 6, 20 * time.Millisecond
	for what, c := range map[string]struct {
		fixed  bool
		polled time.Duration // before it was granted
	}{
		"fixed":           {true, 0},
		"just polled":     {false, 0},
		"polled long ago": {false, grant / 2},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			l := r.lease()
			l.Fixed, l.Renewed = c.fixed, !c.fixed
			r.acquire(l)
			l.Granted(grant, CertainUntil(grant, r.Clock.Now()-int64(c.polled)), true)
			r.mini.SetTTL(l.Keys.Name, grant)
			r.Add(l, 0)
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

// A hold takes over what is kept, and is renewed soon. The goroutine that has kept it says so only then.
func TestHoldThatIsKeptLateDoesNotPutOffTheNext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.kept()
	began := r.Clock.Now()
	require.Empty(t, r.after(little))
	now := r.Clock.Now()
	r.Resume(l, now)
	r.Idle(l, began)
	due := r.after(confirmAfter)
	require.Equal(t, []*Lease{l}, due)
	r.renew(due)
	require.GreaterOrEqual(t, l.Known.Load(), now, "it is not renewed")

	require.Empty(t, r.after(little))
	now = r.Clock.Now()
	r.Resume(l, now)
	r.Idle(l, now)
	due = r.after(confirmAfter)
	require.Equal(t, []*Lease{l}, due)
	r.renew(due)
	require.Less(t, l.Known.Load(), now, "it is renewed though nobody has it")
}
