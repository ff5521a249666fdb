package wire

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

func TestAcquireWaitsForReplicas(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	r := rigOn(t, primary.Client(t))
	r.Replicas, r.AckWait = 1, 10*time.Second
	l := r.lease(Plain, 1)
	token := r.take(l) // by EVAL, as the script is not known
	r.end(l)
	require.Greater(t, r.take(l), token)
	rigOn(t, replicas[0].Client(t)).held(l)
	// A lock that is taken needs no acknowledgement to be so.
	r.AckWait = time.Millisecond
	require.NoError(t, replicas[0].Freeze())
	require.Positive(t, r.tries(r.lease(Plain, 2)).Wait)
	// One that is granted does.
	_, err := r.ask(newLease(Plain, "b", 1), Ask{})
	var few *transport.ReplicaError
	require.ErrorAs(t, err, &few)
	require.Equal(t, []int64{0, 1}, []int64{int64(few.Got), int64(few.Want)})
	require.False(t, transport.Transient(err))
	require.NoError(t, replicas[0].Thaw())
}
