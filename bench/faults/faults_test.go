package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if env, ok := os.LookupEnv(workerEnv); ok {
		runWorker(env, os.Stdin, os.Stdout)
		os.Exit(0)
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "12") // runs wait nearly all the time; the flag is there
	goleak.VerifyTestMain(m)
}

// shows makes a run, and two more if it does not show what it should: the machine may be so busy
// that a lease is over before its holder is at work.
func shows(t *testing.T, lease time.Duration, f, p string, is func(v verdict) bool) {
	t.Helper()
	set := &settings{lease: lease, asleep: 2 * time.Second}
	at := slices.IndexFunc(faults, func(some *fault) bool { return some.id == f })
	for seed := range uint64(3) {
		v, _, err := valid(t.Context(), peerByID(p), faults[at], set, seed)
		t.Log(v, err)
		if err == nil && is(v) {
			return
		}
	}
	t.Error("not what it should be, three times")
}

// What is counted of a library with a fault, under a fault that shows it.
func TestKnownFaultIsCounted(t *testing.T) {
	redistest.Start(t) // skips the test where there is none
	t.Parallel()
	for _, c := range []struct {
		fault, peer string
		is          func(v verdict) bool
	}{
		{"killed", "open", func(v verdict) bool { return v.overlap > section/2 }},
		{"waiter", "open", func(v verdict) bool { return v.overlap > section/2 }},
		{"reply", "open", func(v verdict) bool { return v.overlap > section/2 }},
		{"cut", "deaf", func(v verdict) bool { return v.never && v.overlap > section/2 }},
		{"frozen", "deaf", func(v verdict) bool { return v.untold && v.never }},
		{"cut", "slow", func(v verdict) bool {
			return v.untold && !v.never && v.late > tellSlack && v.sent > 1 && v.accepted == 0
		}},
		{"killed", "eternal", func(v verdict) bool { return v.left && v.next == 0 }},
		{"reply", "eternal", func(v verdict) bool { return v.left }},
		{"waiter", "sleeper", func(v verdict) bool { return v.sleeping > 0 }},
		{"killed", "sleeper", func(v verdict) bool { return v.sleeping > 0 }},
		{"cut", "stuck", func(v verdict) bool { return v.sent == 0 }}, // was told in time
		{"frozen", "stuck", func(v verdict) bool { return v.sent > 0 && v.accepted == v.sent }},
		{"frozen", "bare", func(v verdict) bool { return v.sent > 0 && v.accepted == v.sent }},
	} {
		t.Run(c.fault+"/"+c.peer, func(t *testing.T) {
			t.Parallel()
			lease := 2 * time.Second
			if c.peer == "slow" {
				lease = 3 * time.Second // by more than a holder may take to hear of it
			}
			shows(t, lease, c.fault, "fake-"+c.peer, c.is)
		})
	}
}

// A library without a fault: what is seen is what no library can prevent.
func TestSoundLibraryIsFree(t *testing.T) {
	redistest.Start(t) // skips the test where there is none
	t.Parallel()
	for _, f := range faults {
		for _, p := range []string{"fake-sound", "relock"} {
			t.Run(f.id+"/"+p, func(t *testing.T) {
				t.Parallel()
				shows(t, 3*time.Second, f.id, p, func(v verdict) bool {
					late := v.sent > 0 && v.overlap > 0 // a holder that was frozen
					return late == f.pauses && (f.pauses || v.overlap == 0) &&
						!v.untold && !v.left && v.sleeping == 0 && v.accepted == 0 &&
						v.next > 0 && len(v.problems) == 0
				})
			})
		}
	}
}

func TestEveryLibraryRunsThroughEveryFault(t *testing.T) {
	redistest.Start(t) // skips the test where there is none
	t.Parallel()
	var out, errs bytes.Buffer
	args := []string{
		"-runs", "1", "-parallel", "10", "-lease", "2s", "-asleep", "2s", "-only", "/re|/rue",
	}
	require.Zero(t, run(t.Context(), args, &out, &errs), "%s", &errs)
	rows, last := 0, ""
	for line := range strings.Lines(out.String()) {
		cells := strings.Split(line, " | ")
		if len(cells) != len(heads) || cells[1] == "---" || cells[1] == "library" {
			continue
		}
		rows++
		assert.Equal(t, "1", cells[2], line)
		last = cells[1]
	}
	assert.Equal(t, len(faults)*4, rows, "%s", &out)
	assert.Equal(t, "redislock", last)
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
	}{
		{"-h", 0}, {"-runs 0", 2}, {"-only (", 2}, {"-parallel 0", 2}, {"x", 2},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, c.status, run(t.Context(), strings.Fields(c.args), &out, &errs), c.args)
		assert.NotEmpty(t, errs.String(), c.args)
	}
}

func TestLongestOverlap(t *testing.T) {
	for _, c := range []struct {
		spans string // each "from-to"
		want  time.Duration
	}{
		{"", 0},
		{"0-10", 0},
		{"0-10 10-20", 0},
		{"0-10 20-30", 0},
		{"0-10 9-20", 1},
		{"9-20 0-10", 1},
		{"0-100 10-20 30-45 99-200", 15},
		{"0-100 10-20 40-200", 60},
		{"50-40 0-45", 0}, // told of the loss at once
	} {
		var all []span
		for _, text := range strings.Fields(c.spans) {
			var s span
			_, err := fmt.Sscanf(text, "%d-%d", &s.from, &s.to)
			require.NoError(t, err)
			all = append(all, s)
		}
		assert.Equal(t, c.want, longestOverlap(all), c.spans)
	}
}

func TestSectionEndsWithUnlockDeathOrLoss(t *testing.T) {
	r := newRecord()
	at := func(ms int64) int64 { return ms * int64(time.Millisecond) }
	for _, e := range []struct {
		proc int
		event
	}{
		{0, event{What: enters, At: at(100)}}, {0, event{What: leaves, At: at(200)}},
		{1, event{What: enters, At: at(300)}},
		{2, event{What: enters, At: at(500)}}, {2, event{What: told, At: at(900)}},
		{2, event{What: leaves, At: at(950)}},
		{3, event{What: enters, At: at(960)}},
		{4, event{What: calls, At: at(970)}},
	} {
		r.hear(e.proc, e.event)
	}
	r.killed[1] = at(400)
	got := make(map[int][2]int64)
	for _, s := range r.spans(at(1000)) {
		got[s.who.proc] = [2]int64{s.from / 1e6, s.to / 1e6}
	}
	want := map[int][2]int64{0: {100, 200}, 1: {300, 400}, 2: {500, 800}, 3: {960, 1000}}
	assert.Equal(t, want, got)
	assert.Equal(t, 1, r.waiting())
	assert.Equal(t, at(500), r.first(at(300)))
}

// A write is stale if a later holder has written, and the store knows by the token.
func TestStoreRefusesByTokenAlone(t *testing.T) {
	for _, c := range []struct {
		tokens         [2]int64
		sent, accepted int
	}{
		{[2]int64{1, 2}, 1, 0},
		{[2]int64{0, 0}, 1, 1},
		{[2]int64{7, 7}, 1, 1},
		{[2]int64{2, 1}, 1, 1}, // tokens that shrink
	} {
		r := newRecord()
		hear := func(proc int, at int64, what string) {
			r.hear(proc, event{What: what, At: at, Token: c.tokens[proc]})
		}
		hear(1, 20, enters)
		hear(1, 40, writes) // is heard before what the other wrote before
		hear(0, 10, enters)
		hear(0, 15, writes)
		hear(0, 30, writes) // no later holder has written
		hear(0, 50, writes)
		sent, accepted := r.store()
		assert.Equal(t, []int{c.sent, c.accepted}, []int{sent, accepted}, "%v", c.tokens)
	}
}

func TestWatchSeesWhoHadTheLock(t *testing.T) {
	w := &watch{last: 100, seen: []sight{{0, ""}, {10, "a"}, {40, ""}, {50, "b"}, {90, ""}}}
	assert.EqualValues(t, 40, w.gone(10))
	assert.EqualValues(t, 50, w.gone(45))
	assert.Zero(t, w.gone(95))
	assert.EqualValues(t, 40, w.longest(0))
	assert.EqualValues(t, 25, w.longest(65))
	assert.EqualValues(t, 10, w.free())
	w.note("c", nil)
	assert.Zero(t, w.free())
}

func TestTableSaysWhatNobodyPromises(t *testing.T) {
	frozen, cut := faults[1], faults[2]
	some := []verdict{
		{overlap: 2 * time.Second, sent: 1, accepted: 1, next: time.Second},
		{overlap: time.Second, untold: true, never: true, sent: 3, sleeping: 2, left: true},
		{untold: true, late: 15 * time.Second, next: 3 * time.Second},
	}
	for _, c := range []struct {
		fault *fault
		peer  *peer
		runs  []verdict
		want  string
	}{
		{frozen, &peer{id: "a"}, some,
			"frozen a 3 2(worst2.0s)¹ 2(1never) 1 2 4 1² 3.0s(worst3.0s)"},
		{cut, &peer{id: "b", tokens: true}, some,
			"cut b 3 2(worst2.0s) 2(1never) 1 2 4 1 3.0s(worst3.0s)"},
		{cut, &peer{id: "b", tokens: true}, some[2:],
			"cut b 1 0 1(15.0sto15.0slate) 0 0 0 0 3.0s(worst3.0s)"},
		{faults[0], &peer{id: "c"}, nil, "killed c 0 0 – 0 0 – – –"},
	} {
		r := &row{fault: c.fault, peer: c.peer, runs: c.runs}
		cells := r.cells()
		cells[0] = c.fault.id
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], " ", "")
		}
		assert.Equal(t, c.want, strings.Join(cells, " "))
	}
}
