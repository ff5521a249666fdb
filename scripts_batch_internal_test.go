package relock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// held returns n leases that are held, with one second to go.
func (r *rig) held(n int) []*lease {
	r.t.Helper()
	var ls []*lease
	for i := range n {
		l := plainLease(fmt.Sprint("lock", i), i)
		r.take(l)
		r.must("PEXPIRE", l.keys.name, "1000")
		ls = append(ls, l)
	}
	return ls
}

func TestRenewGoesOutInBatchesAndTellsWhichAreGone(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		ls := r.held(250)
		gone := map[int]bool{}
		for _, i := range []int{0, 1, 99, 100, 150, 199, 200, 249} {
			gone[i] = true
			switch name := ls[i].keys.name; i % 4 {
			case 0: // no key
				r.must("DEL", name)
			case 1: // another holder
				r.must("DEL", name)
				r.must("HSET", name, "other:1", "1")
				r.must("PEXPIRE", name, "1000")
			case 2: // something else
				r.must("SET", name, "no lock", "PX", "1000")
			case 3: // held beside a read hold of Redisson, as after a change of type
				r.must("DEL", name)
				r.must("HSET", name, "mode", "read", ls[i].id+"0", "1")
				r.must("PEXPIRE", name, "1000")
			}
		}
		r.must("PERSIST", ls[5].keys.name)

		r.renew(ctx0, ls[:1]) // now the server knows the script
		before := int64(0)
		if !r.mini {
			before = r.runs()
		}
		results := r.renew(ctx0, ls)
		if !r.mini && r.runs()-before != 3 {
			t.Fatalf("%d scripts for 250 holds, want 3", r.runs()-before)
		}
		if len(results) != len(ls) {
			t.Fatalf("%d results", len(results))
		}
		for i, res := range results {
			if res.lease != ls[i] || res.err != nil || res.gone != gone[i] {
				t.Fatalf("hold %d: gone %v, %v; the right one: %v", i, res.gone, res.err, res.lease == ls[i])
			}
			switch ttl := r.pttl(ls[i].keys.name); {
			case !gone[i]:
				r.mustNear("time to live", ttl, ls[i].length)
			case ttl > time.Second:
				t.Fatalf("the renewal of hold %d, which is gone, set %v", i, ttl)
			}
		}
	})
}

func TestRenewSentTwiceChangesNothing(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		ls := r.held(3)
		r.end(ls[1])
		for range 2 {
			results := r.renew(ctx0, ls)
			for i, res := range results {
				if res.gone != (i == 1) || res.err != nil {
					t.Fatalf("hold %d: %+v", i, res)
				}
			}
			if r.int("EXISTS", ls[1].keys.name) != 0 {
				t.Fatal("a renewal brought back a hold that was released")
			}
		}
		if len(r.renew(ctx0, nil)) != 0 {
			t.Fatal("results for nothing")
		}
	})
}

// Leases of different lengths, and read holds, never share a script.
func TestRenewKeepsLengthsAndKindsApart(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		short, long := r.held(2)[0], r.held(4)[3]
		short.length, long.length = 20*time.Second, 50*time.Second
		k := newLockKeys(read, "rw")
		reader := &lease{keys: &k, kind: read, id: "s:9", length: 40 * time.Second, index: -1}
		if reply, _, err := r.acquireRead(ctx0, reader, "1000", "", false, &r.cfg); reply != readJoin || err != nil {
			t.Fatalf("acquireRead = %d, %v", reply, err)
		}
		for _, res := range r.renew(ctx0, []*lease{short, reader, long}) {
			if res.gone || res.err != nil {
				t.Fatalf("%s: %+v", res.lease.keys.name, res)
			}
			r.mustNear(res.lease.keys.name, r.pttl(res.lease.keys.name), res.lease.length)
		}
		r.mustNear("the reader's key", r.pttl(k.timeout("s:9")), reader.length)
	})
}

// After SCRIPT FLUSH, or on a server that was restarted, every call falls back.
func TestEveryCallGetsByWithoutItsScript(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		l := plainLease("a", 1)
		r.forgetScripts()
		r.take(l)
		r.forgetScripts()
		if in, err := r.inspect(ctx0, "a"); err != nil || in.fields["s:1"] != 1 {
			t.Fatalf("inspect = %+v, %v", in, err)
		}
		r.forgetScripts()
		if res := r.renew(ctx0, []*lease{l}); res[0].gone || res[0].err != nil {
			t.Fatalf("renew = %+v", res)
		}
		r.forgetScripts()
		r.end(l)
		r.take(l)
		r.forgetScripts()
		if was, err := r.force(ctx0, "a"); !was || err != nil {
			t.Fatalf("force = %v, %v", was, err)
		}

		ls := r.held(250)
		r.forgetScripts()
		for i, res := range r.renew(ctx0, ls) {
			if res.lease != ls[i] || res.gone || res.err != nil {
				t.Fatalf("renewal %d: %+v", i, res)
			}
		}
		r.forgetScripts()
		told, errs := r.releaseAll(ctx0, ls)
		for i := range ls {
			if told[i] != 0 || errs[i] != nil {
				t.Fatalf("release %d: %d, %v", i, told[i], errs[i])
			}
		}
		for _, key := range r.keys() {
			if r.text("TYPE", key) == "hash" {
				t.Fatalf("%s is still held", key)
			}
		}
	})
}

// A key that holds something else is an error at once, and stays as it is.
func TestWrongTypeIsAnErrorAndChangesNothing(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		l := plainLease("a", 1)
		r.must("SET", "a", "no lock")
		_, _, err := r.ask(l)
		r.mustBeWrongType("acquire", err)
		_, err = r.release(ctx0, l)
		r.mustBeWrongType("release", err)
		_, err = r.force(ctx0, "a")
		r.mustBeWrongType("force", err)
		_, err = r.inspect(ctx0, "a")
		r.mustBeWrongType("inspect", err)
		if res := r.renew(ctx0, []*lease{l}); !res[0].gone || res[0].err != nil {
			t.Fatalf("renew = %+v, want gone", res)
		}
		if got := r.keys(); len(got) != 1 || r.text("GET", "a") != "no lock" {
			t.Fatalf("keys %q, a is %q", got, r.text("GET", "a"))
		}
		r.must("DEL", "a")
		r.must("SET", "relock_queue:{a}", "no queue")
		_, err = r.inspect(ctx0, "a")
		r.mustBeWrongType("inspect of a wrong queue", err)
	})
}

// An acquisition whose token cannot be issued leaves nothing: the lock was taken first
// once, and stayed held by nobody until its lease ended.
func TestAcquireThatFailsHalfwayLeavesNothing(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		l := plainLease("a", 1)
		r.must("HSET", l.keys.fence, "no", "token")
		_, _, err := r.ask(l)
		r.mustBeWrongType("acquire", err)
		for _, k := range []kind{fair, write} {
			keys := newLockKeys(k, "a")
			l := &lease{keys: &keys, kind: k, id: "s:2", length: time.Minute}
			if k == fair {
				_, _, err = r.enter(ctx0, l, "60000", true, &r.cfg)
			} else {
				l.id += ":write"
				_, _, err = r.ask(l)
			}
			r.mustBeWrongType("acquire", err)
		}
		if r.int("EXISTS", "a") != 0 {
			t.Fatalf("the lock is held: %q", r.hash("a"))
		}
		// What is no number is replaced.
		r.must("DEL", l.keys.fence)
		r.must("SET", l.keys.fence, "rubbish")
		if token := r.take(l); r.text("GET", l.keys.fence) != fmt.Sprint(token) {
			t.Fatalf("token %d, stored %q", token, r.text("GET", l.keys.fence))
		}
	})
}

func TestAcquireAllTakesAllOrNone(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		ls := []*lease{plainLease("a", 1), plainLease("b", 2), plainLease("c", 3)}
		ls[1].length = 50 * time.Second
		first, taken, _, err := r.acquireAll(ctx0, ls)
		if err != nil || taken != -1 || len(first) != 3 {
			t.Fatalf("acquireAll = %d, %d, %v", first, taken, err)
		}
		for i, l := range ls {
			if got := r.hash(l.keys.name); !maps.Equal(got, map[string]string{l.id: "1"}) {
				t.Fatalf("%s is %q", l.keys.name, got)
			}
			r.mustNear(l.keys.name, r.pttl(l.keys.name), l.length)
			if got := r.text("GET", l.keys.fence); got != fmt.Sprint(first[i]) {
				t.Fatalf("%s: token %d, stored %q", l.keys.name, first[i], got)
			}
		}
		again, taken, _, err := r.acquireAll(ctx0, ls)
		if err != nil || taken != -1 || !slices.Equal(first, again) {
			t.Fatalf("sent again: %d, %d, %v; first %d", again, taken, err, first)
		}
		others := []*lease{plainLease("d", 4), plainLease("b", 5)}
		if _, taken, ttl, err := r.acquireAll(ctx0, others); err != nil || taken != 1 || ttl <= 40*time.Second {
			t.Fatalf("with one taken: %d, %v, %v", taken, ttl, err)
		}
		if r.int("EXISTS", "d") != 0 || r.int("EXISTS", others[0].keys.fence) != 0 {
			t.Fatal("one was taken although another was held")
		}
		// Half of them are ours already, as after a reply that was lost.
		r.end(ls[2])
		again, _, _, err = r.acquireAll(ctx0, ls)
		if err != nil || again[0] != first[0] || again[1] != first[1] || again[2] <= first[2] {
			t.Fatalf("with two of three held: %d, %v; first %d", again, err, first)
		}
		// What cannot be a token is replaced by one.
		r.must("SET", others[0].keys.fence, "rubbish")
		r.end(ls[1])
		if tokens, _, _, err := r.acquireAll(ctx0, others); err != nil || len(tokens) != 2 || tokens[0] < 1<<50 {
			t.Fatalf("acquireAll = %d, %v", tokens, err)
		}
		r.must("SET", "e", "no lock")
		_, _, _, err = r.acquireAll(ctx0, []*lease{plainLease("f", 6), plainLease("e", 7)})
		r.mustBeWrongType("acquireAll", err)
		if r.int("EXISTS", "f") != 0 {
			t.Fatal("one was taken although another failed")
		}
	})
}

func TestAcquireWaitsForReplicas(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	r := rigOn(t, primary.Client(t), primary.Addr())
	r.cfg.replicas, r.cfg.ackWait = 1, 10*time.Second
	l := plainLease("a", 1)
	token := r.take(l) // by EVAL, as the script is not known
	r.end(l)
	if again := r.take(l); again <= token {
		t.Fatalf("token %d after %d", again, token)
	}
	at := rigOn(t, replicas[0].Client(t), replicas[0].Addr())
	if got := at.hash("a"); !maps.Equal(got, map[string]string{"s:1": "1"}) {
		t.Fatalf("the replica has %q", got)
	}
	// A lock that is taken needs no acknowledgement to be so.
	r.cfg.ackWait = time.Millisecond
	if err := replicas[0].Freeze(); err != nil {
		t.Fatal(err)
	}
	if token, ttl, err := r.ask(plainLease("a", 2)); token != 0 || ttl <= 0 || err != nil {
		t.Fatalf("a held lock gave %d, %v, %v", token, ttl, err)
	}
	// One that is granted does.
	_, _, err := r.ask(plainLease("b", 1))
	var few *replicaError
	if !errors.As(err, &few) || few.got != 0 || few.want != 1 || transient(err) {
		t.Fatalf("acquire = %v", err)
	}
	if err := replicas[0].Thaw(); err != nil {
		t.Fatal(err)
	}
}

func TestAcquireTellsThatThereAreNoReplicas(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.cfg.replicas, r.cfg.ackWait = 2, time.Millisecond
		for range 2 { // by EVAL, then by EVALSHA
			_, _, err := r.ask(plainLease("a", 1))
			var few *replicaError
			if !errors.As(err, &few) || few.want != 2 {
				t.Fatalf("acquire = %v", err)
			}
		}
	})
}
