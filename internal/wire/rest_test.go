package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lock that rests is held under an id that nothing renews, for a time that neither the lease nor other readers shorten.
func TestLockRestsAndNobodyRenewsIt(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for k, rest := range map[Kind]time.Duration{Plain: time.Second, Fair: 5 * time.Minute, Write: time.Second, Read: 5 * time.Minute} {
			r.must("FLUSHALL")
			has(k, 1)(r)
			l := r.lease(k, 1)
			l.Rest = rest
			r.end(l)
			rests := func() {
				t.Helper()
				require.Equal(t, "0", r.hash("a")[l.ID])
				require.InDelta(t, rest, r.pttl("a"), float64(time.Second/2))
			}
			rests()
			r.gone(l)
			require.True(t, r.Renew(ctx0, []*Ref{l})[0].Gone, "it is renewed")
			require.False(t, r.tries(r.writer(3)).Granted)
			other := r.lease(k, 4)
			if k == Read {
				other = r.writer(4)
			}
			require.InDelta(t, rest, r.tries(other).Wait, float64(time.Second/2))
			rests()
		}
	})
}

// The lock stays taken for the minimum of a reader that has left, also when the others have.
func TestReaderRestsBesideOthers(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, rest := range []time.Duration{5 * time.Minute, 5 * time.Second} {
			r.must("FLUSHALL")
			has(Read, 1)(r)
			has(Read, 2)(r)
			l := r.reader(1)
			l.Rest = rest
			r.end(l)
			r.mustNear("the lock", r.pttl("a"), max(rest, r.reader(2).Length))
			r.end(r.reader(2))
			require.Equal(t, map[string]string{"mode": "read", r.reader(2).ID: "0"}, r.hash("a"))
			require.InDelta(t, rest, r.pttl("a"), float64(time.Second/2))
		}
	})
}

// A writer that reads on does not rest in a way that ends its read hold.
func TestWriterThatReadsOnDoesNotShortenItsLease(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		w, own := r.writer(1), r.reader(2)
		r.take(w)
		r.under(own, w)
		w.Rest = time.Second
		r.end(w)
		r.mustNear("the read hold", r.pttl("a"), own.Length)
	})
}
