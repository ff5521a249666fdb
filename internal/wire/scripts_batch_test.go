package wire

import (
	"fmt"
	"testing"
	"time"
)

// held returns n leases that are held, with one second to go.
func (r *rig) held(n int) []*Ref {
	r.t.Helper()
	var ls []*Ref
	for i := range n {
		l := plainLease(fmt.Sprint("lock", i), i)
		r.take(l)
		r.must("PEXPIRE", l.Keys.Name, "15000")
		ls = append(ls, l)
	}
	return ls
}

func TestRenewGoesOutInBatchesAndReportsWhichAreGone(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		ls := r.held(250)
		gone := map[int]bool{}
		for _, i := range []int{0, 1, 99, 100, 150, 199, 200, 249} {
			gone[i] = true
			switch name := ls[i].Keys.Name; i % 4 {
			case 0: // no key
				r.must("DEL", name)
			case 1: // another holder
				r.must("DEL", name)
				r.must("HSET", name, id("o:1"), "1")
				r.must("PEXPIRE", name, "15000")
			case 2: // something else
				r.must("SET", name, "no lock", "PX", "15000")
			case 3: // held beside a read hold of Redisson, as after a change of type
				r.must("DEL", name)
				r.must("HSET", name, "mode", "read", ls[i].ID+"0", "1")
				r.must("PEXPIRE", name, "15000")
			}
		}
		r.must("PERSIST", ls[5].Keys.Name)

		r.Renew(ctx0, ls[:1]) // now the server knows the script
		before := int64(0)
		if !r.mini {
			before = r.runs()
		}
		results := r.Renew(ctx0, ls)
		if !r.mini && r.runs()-before != 3 {
			t.Fatalf("%d scripts for 250 holds, want 3", r.runs()-before)
		}
		if len(results) != len(ls) {
			t.Fatalf("%d results", len(results))
		}
		for i, res := range results {
			if res.Err != nil || res.Gone != gone[i] {
				t.Fatalf("hold %d: gone %v, %v", i, res.Gone, res.Err)
			}
			switch ttl := r.pttl(ls[i].Keys.Name); {
			case !gone[i]:
				r.mustNear("time to live", ttl, ls[i].Length)
			case ttl > 15*time.Second:
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
			results := r.Renew(ctx0, ls)
			for i, res := range results {
				if res.Gone != (i == 1) || res.Err != nil {
					t.Fatalf("hold %d: %+v", i, res)
				}
			}
			if r.int("EXISTS", ls[1].Keys.Name) != 0 {
				t.Fatal("a renewal brought back a hold that was released")
			}
		}
		if len(r.Renew(ctx0, nil)) != 0 {
			t.Fatal("results for nothing")
		}
	})
}

// Leases of different lengths, and read holds, never share a script.
func TestRenewKeepsLengthsAndKindsApart(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		short, long := r.held(2)[0], r.held(4)[3]
		short.Length, long.Length = 20*time.Second, 50*time.Second
		k := NewKeys(Read, "rw")
		reader := &Ref{Keys: &k, Kind: Read, ID: id("s:9"), Length: 40 * time.Second, Claim: ClaimMost}
		if reply, _, err := r.AcquireRead(ctx0, reader, "15000", "", "", false); reply != ReadJoin || err != nil {
			t.Fatalf("acquireRead = %d, %v", reply, err)
		}
		ls := []*Ref{short, reader, long}
		for i, res := range r.Renew(ctx0, ls) {
			if res.Gone || res.Err != nil {
				t.Fatalf("%s: %+v", ls[i].Keys.Name, res)
			}
			r.mustNear(ls[i].Keys.Name, r.pttl(ls[i].Keys.Name), ls[i].Length)
		}
		r.mustNear("the reader's key", r.pttl(k.timeout(id("s:9"))), reader.Length)
	})
}

// After SCRIPT FLUSH, or on a server that was restarted, every call falls back.
func TestEveryCallGetsByWithoutItsScript(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for _, kind := range kinds {
			l := r.lease(kind, 1)
			for _, call := range []func(){
				func() { has(kind, 1)(r) },
				func() {
					if in, err := r.Inspect(ctx0, "a"); err != nil || in.Fields[l.ID] != 1 {
						t.Fatalf("inspect = %+v, %v", in, err)
					}
				},
				func() { r.renews(l) },
				func() { r.end(l) },
			} {
				r.forgetScripts()
				call()
			}
			has(kind, 1)(r)
			if kind == Read {
				r.forgetScripts()
				r.joins(l, r.reader(3), true, ReadOther)
			}
			r.forgetScripts()
			if was, err := r.Force(ctx0, "a"); !was || err != nil {
				t.Fatalf("force = %v, %v", was, err)
			}
		}

		ls := r.rig.held(250)
		r.forgetScripts()
		r.renews(ls...)
		r.forgetScripts()
		told, errs := r.ReleaseAll(ctx0, ls)
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

// A key that holds something else, the lock's or its queue's, is an error at once, and stays as it is.
func TestWrongTypeIsAnErrorAndChangesNothing(t *testing.T) {
	onRWRigs(t, func(t *testing.T, r *rwRig) {
		for _, kind := range kinds {
			l := r.lease(kind, 1)
			for _, key := range []string{"a", l.Keys.aux} {
				r.must("FLUSHALL")
				r.must("SET", key, "something else")
				for _, wait := range []bool{false, true} {
					var err error
					if kind == Read {
						_, _, err = r.AcquireRead(ctx0, l, "1000", "", "", wait)
					} else {
						_, _, err = r.Acquire(ctx0, l, "1000", wait)
					}
					r.mustBeWrongType("acquire", err)
				}
				_, err := r.Inspect(ctx0, "a")
				r.mustBeWrongType("inspect", err)
				if key == "a" {
					_, err = r.Release(ctx0, l, nil)
					r.mustBeWrongType("release", err)
					_, err = r.Force(ctx0, "a")
					r.mustBeWrongType("force", err)
					if res := r.Renew(ctx0, []*Ref{l}); !res[0].Gone || res[0].Err != nil {
						t.Fatalf("renew = %+v, want gone", res)
					}
				}
				if got := r.keys(); len(got) != 1 || r.text("GET", key) != "something else" {
					t.Fatalf("keys %q, %s is %q", got, key, r.text("GET", key))
				}
			}
		}
	})
}

// An acquisition whose token cannot be issued leaves nothing: the lock was taken first
// once, and stayed held by nobody until its lease ended.
func TestAcquireThatFailsHalfwayLeavesNothing(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		l := plainLease("a", 1)
		r.must("HSET", l.Keys.fence, "no", "token")
		_, _, err := r.ask(l)
		r.mustBeWrongType("acquire", err)
		for _, k := range []Kind{Fair, Write} {
			keys := NewKeys(k, "a")
			l := &Ref{Keys: &keys, Kind: k, ID: id("s:2"), Length: time.Minute, Claim: ClaimMost}
			if k == Fair {
				_, _, err = r.Acquire(ctx0, l, "60000", true)
			} else {
				l.ID += ":write"
				_, _, err = r.ask(l)
			}
			r.mustBeWrongType("acquire", err)
		}
		if r.int("EXISTS", "a") != 0 {
			t.Fatalf("the lock is held: %q", r.hash("a"))
		}
		// What is no number is replaced.
		r.must("DEL", l.Keys.fence)
		r.must("SET", l.Keys.fence, "rubbish")
		if token := r.take(l); r.text("GET", l.Keys.fence) != fmt.Sprint(token) {
			t.Fatalf("token %d, stored %q", token, r.text("GET", l.Keys.fence))
		}
	})
}

// What is tried in one pipeline is answered one by one, sent twice as well.
func TestTriesThatAreSentTogetherAreAnsweredEach(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		theirs := plainLease("b", 1)
		r.take(theirs)
		r.must("SET", "d", "no lock")
		tries := []Try{
			{Ref: plainLease("a", 2), LeaseMS: "1000"}, {Ref: plainLease("b", 3), LeaseMS: "1000"},
			{Ref: plainLease("c", 4), LeaseMS: "1000"}, {Ref: plainLease("d", 5), LeaseMS: "1000"},
		}
		first, errs := r.TryAll(ctx0, tries)
		again, _ := r.TryAll(ctx0, tries)
		for i, want := range []bool{true, false, true, false} {
			if got := first[i] > 0; got != want || got && again[i] != first[i] || (errs[i] != nil) != (i == 3) {
				t.Fatalf("%d: %d, again %d, %v", i, first[i], again[i], errs[i])
			}
		}
	})
}
