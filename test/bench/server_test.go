package bench_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// guarded measures Hold.Eval beside the same script without a guard.
func (t *table) guarded(b *testing.B, srv *redistest.Server) {
	const text = "return redis.call('incr', KEYS[1])"
	digest := sha1.Sum([]byte(text))
	sha := hex.EncodeToString(digest[:])
	client := kit.NewClient(b, srv)
	kit.ChildCheck(client.Do(kit.Background, client.B().ScriptLoad().Script(text).Build()).Error())
	hold, err := benchSession(b, srv).Mutex("guard").Acquire(kit.Background)
	kit.ChildCheck(err)
	ctx, cancel := context.WithCancel(kit.Background) // as that of a request; without, rueidis is faster
	defer cancel()
	keys := []string{"guarded{guard}"}
	m := inTurns(benchRounds,
		func() float64 {
			return nsPerOp(200, func() {
				evalsha := client.B().Evalsha().Sha1(sha).Numkeys(1).Key(keys...).Build()
				kit.ChildCheck(client.Do(ctx, evalsha).Error())
			})
		},
		func() float64 {
			return nsPerOp(200, func() {
				kit.ChildCheck(hold.Eval(ctx, text, keys, nil).Error())
			})
		})
	t.add("Hold.Eval, beside its script alone", m[1], m[0], 1.1, 3)
	kit.ChildCheck(hold.Unlock(kit.Background))
}

// server measures what an acquisition costs the server when others want the lock as well: with 128
// sessions beside 2. Compare the figures themselves with those of another commit.
func (t *table) server(b *testing.B, srv *redistest.Server) {
	const few, many = 2, 128
	for _, c := range []struct {
		kind   string
		locker func(s *relock.Session, name string) relock.Locker
	}{
		{"Mutex", func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) }},
		{"FairMutex", func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) }},
		{"writer", func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) }},
	} {
		var runs int
		cpus := make(map[int][]float64)
		measure := func(n int) func() float64 {
			return func() float64 {
				runs++
				script, cpu := contended(b, srv, n, func(s *relock.Session) relock.Locker {
					return c.locker(s, fmt.Sprint("server-", c.kind, "-", runs))
				})
				cpus[n] = append(cpus[n], cpu)
				return script
			}
		}
		m := inTurns(3, measure(few), measure(many))
		beside := fmt.Sprintf(" (%d sessions)", few)
		name := fmt.Sprintf("server time of a contended %s, %d sessions", c.kind, many)
		t.grows(name, m[1], m[0], beside, took, 1.25, 3)
		t.grows("  by INFO cpu", median(cpus[many]), median(cpus[few]), beside, took, 1.25, 3)
	}
}

// contended returns what an acquisition takes the server, in nanoseconds: by the time of its
// scripts, and by that of its processor.
func contended(
	b *testing.B, srv *redistest.Server, n int, locker func(*relock.Session) relock.Locker,
) (script, cpu float64) {
	var count atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	client := kit.NewClient(b, srv)
	var sessions []*relock.Session
	for range n {
		s, err := relock.NewSession(kit.Background, client)
		kit.ChildCheck(err)
		sessions = append(sessions, s)
		l := locker(s)
		wg.Go(func() {
			for !stop.Load() {
				kit.ChildCheck(l.Lock(kit.Background))
				time.Sleep(500 * time.Microsecond)
				kit.ChildCheck(l.Unlock(kit.Background))
				count.Add(1)
			}
		})
	}
	time.Sleep(least(50*time.Millisecond, 500*time.Millisecond))
	cpuBefore, _ := serverLoad(srv)
	before, scriptBefore := count.Load(), scriptTime(srv)
	time.Sleep(least(50*time.Millisecond, 3*time.Second))
	cpuAfter, _ := serverLoad(srv)
	scriptAfter := scriptTime(srv)
	acquisitions := float64(max(count.Load()-before, 1))
	stop.Store(true)
	wg.Wait()
	for _, s := range sessions {
		kit.ChildCheck(s.Close(kit.Background))
	}
	return float64(scriptAfter-scriptBefore) / acquisitions, (cpuAfter - cpuBefore) / acquisitions
}

// scriptTime returns how long the server has spent on scripts.
func scriptTime(srv *redistest.Server) time.Duration {
	_, text, _ := strings.Cut(srv.Info("commandstats")["cmdstat_evalsha"], "usec=")
	text, _, _ = strings.Cut(text, ",")
	us, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(us) * time.Microsecond
}
