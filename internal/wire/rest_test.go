package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lock that rests is held under an id that nothing renews, for a time that neither the lease nor other readers shorten.
func TestLockRestsUnderAnotherID(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for k, rest := range map[Kind]time.Duration{Plain: time.Second, Fair: 5 * time.Minute, Write: time.Second, Read: 5 * time.Minute} {
			r.must("FLUSHALL")
			has(k, 1)(r)
			l, resting := r.lease(k, 1), r.lease(k, 51)
			l.Rest = &Rest{resting.ID, rest}
			_, err := r.Release(ctx0, l)
			require.NoError(t, err)
			require.Equal(t, []string{resting.ID}, fieldsOf(r))
			require.InDelta(t, rest, r.pttl(r.name), float64(time.Second/2))
			r.gone(l)
			require.InDelta(t, rest, r.pttl(r.name), float64(time.Second/2), "somebody has renewed it")
			other := r.lease(Write, 3)
			if k == Plain || k == Fair {
				other = r.lease(Plain, 3)
			}
			reply, ttl, err := r.try(other, false)
			require.NoError(t, err)
			require.Zero(t, reply)
			require.InDelta(t, rest, ttl, float64(time.Second/2))
		}
	})
}

// fieldsOf returns the hold ids of the lock.
func fieldsOf(r *rig) (ids []string) {
	for field := range r.hash(r.name) {
		if field != "mode" {
			ids = append(ids, field)
		}
	}
	return ids
}

// Others that read on keep their leases, and the lock lives as long as the last of all.
func TestReaderRestsBesideOthers(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		has(Read, 1)(r)
		has(Read, 2)(r)
		l := r.reader(1)
		l.Rest = &Rest{r.reader(51).ID, 5 * time.Minute}
		_, err := r.Release(ctx0, l)
		require.NoError(t, err)
		r.end(r.reader(2))
		require.Equal(t, []string{l.Rest.ID}, fieldsOf(r))
		require.InDelta(t, l.Rest.For, r.pttl(r.name), float64(time.Second/2))
		r.mustList(1)
	})
}
