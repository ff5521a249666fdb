package wire

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
)

func TestAcquireWaitsForReplicas(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	r := rigOn(t, primary.Client(t))
	r.Replicas, r.AckWait = 1, 10*time.Second
	l := plainLease("a", 1)
	token := r.take(l) // by EVAL, as the script is not known
	r.end(l)
	if again := r.take(l); again <= token {
		t.Fatalf("token %d after %d", again, token)
	}
	at := rigOn(t, replicas[0].Client(t))
	if got := at.hash("a"); !maps.Equal(got, map[string]string{id("s:1"): "1"}) {
		t.Fatalf("the replica has %q", got)
	}
	// A lock that is taken needs no acknowledgement to be so.
	r.AckWait = time.Millisecond
	if err := replicas[0].Freeze(); err != nil {
		t.Fatal(err)
	}
	if token, ttl, err := r.ask(plainLease("a", 2)); token != 0 || ttl <= 0 || err != nil {
		t.Fatalf("a held lock gave %d, %v, %v", token, ttl, err)
	}
	// One that is granted does.
	_, _, err := r.ask(plainLease("b", 1))
	var few *transport.ReplicaError
	if !errors.As(err, &few) || few.Got != 0 || few.Want != 1 || transport.Transient(err) {
		t.Fatalf("acquire = %v", err)
	}
	if err := replicas[0].Thaw(); err != nil {
		t.Fatal(err)
	}
}

func TestAcquireReportsMissingReplicas(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.Replicas, r.AckWait = 2, time.Millisecond
		for range 2 { // by EVAL, then by EVALSHA
			_, _, err := r.ask(plainLease("a", 1))
			var few *transport.ReplicaError
			if !errors.As(err, &few) || few.Want != 2 {
				t.Fatalf("acquire = %v", err)
			}
		}
	})
}
