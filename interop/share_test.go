package interop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// One process of either side hammers a lock amid four of the other. Each side must get at least a
// tenth of an even share of the turns, by the number of its processes. RELOCK_INTEROP_SHARE sets for how
// long each pair is measured: 3 s have 30 turns of 100 ms for either side, which leaves much to chance.
func TestSharesOfBothSides(t *testing.T) {
	eachRedisson(t, func(t *testing.T, version string) {
		const crowd, part = 4, 0.1
		server := redistest.Start(t)
		at := single(server, 30*time.Second)
		var gos, javas []*peer
		for range crowd {
			gos, javas = append(gos, at.start(t, "")), append(javas, at.start(t, version))
		}
		warmUp(javas, "lock", "fair", "rw")
		d := setting(t, "RELOCK_INTEROP_SHARE", 8*time.Second)
		for _, kinds := range [][2]string{{"lock", "lock"}, {"fair", "fair"}, {"write", "write"}, {"read", "write"}, {"write", "rw"}} {
			for _, sides := range [][2][]*peer{{javas, gos}, {gos, javas}} {
				one, many := append([]*peer(nil), sides[0][0]), sides[1]
				name := fmt.Sprintf("one %v %s amid %d %v %s", one[0], kinds[0], crowd, many[0], kinds[1])
				counter := strings.ReplaceAll(name, " ", "-")
				t.Run(name, func(t *testing.T) {
					var calls []*call
					for i, p := range append(one, many...) {
						p.t = t
						calls = append(calls, p.begin("share", "hammer", kinds[min(i, 1)], name, counter, d.Milliseconds(), 1))
					}
					total, turns := 0, counted(t, server, counter, calls, d)
					for _, n := range turns {
						total += n
					}
					first := float64(turns[calls[0]])
					rest := float64(total) - first
					even := float64(total) / (crowd + 1)
					each := ""
					for _, c := range calls[1:] {
						each += fmt.Sprint(" ", turns[c])
					}
					report.add("share", name, version, first, strings.TrimSpace(each), fmt.Sprintf("%.2f", first/even), fmt.Sprintf("%.2f", rest/crowd/even))
					if first < part*even || rest < part*crowd*even {
						t.Errorf("%.0f turns, and %.0f of the others; want at least %v of an even share each", first, rest, part)
					}
				})
			}
		}
	})
}

// warmUp has processes use locks of some kinds for half a second each: a JVM is slow at first.
func warmUp(peers []*peer, kinds ...string) {
	var all []*call
	for i, p := range peers {
		for _, kind := range kinds {
			name := fmt.Sprint("warm", i, kind)
			all = append(all, p.begin("warm", "hammer", kind, name, name, 500, 0))
		}
	}
	for _, c := range all {
		c.must()
	}
}

// A process of Redisson is some way from Redis, and two of relock beside it hammer the lock: each side gets at
// least a tenth of an even share.
func TestSharesOfADistantRedisson(t *testing.T) {
	version := redissons[len(redissons)-1]
	javaFor(t, version)
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	far := where{"single", proxy.Addr(), 30 * time.Second}.start(t, version)
	at := single(server, 30*time.Second)
	peers := []*peer{far, at.start(t, ""), at.start(t, "")}
	warmUp(peers[:1], "lock", "fair", "rw")
	d := min(setting(t, "RELOCK_INTEROP_SHARE", 3*time.Second), 3*time.Second)
	for _, distance := range []time.Duration{0, 4 * time.Millisecond, 20 * time.Millisecond} {
		proxy.Delay(distance)
		for _, kinds := range [][2]string{{"lock", "lock"}, {"fair", "fair"}, {"write", "write"}, {"read", "write"}, {"write", "read"}} {
			name := fmt.Sprintf("Java %s at %v beside 2 Go %s", kinds[0], distance, kinds[1])
			counter := strings.ReplaceAll(name, " ", "-")
			t.Run(name, func(t *testing.T) {
				var calls []*call
				for i, p := range peers {
					p.t = t
					calls = append(calls, p.begin("share", "hammer", kinds[min(i, 1)], name, counter, d.Milliseconds(), 1))
				}
				turns := counted(t, server, counter, calls, d)
				java, gos := turns[calls[0]], turns[calls[1]]+turns[calls[2]]
				even := float64(java+gos) / 3
				report.add("distance", kinds[0]+" beside "+kinds[1], version, distance, java, gos, fmt.Sprintf("%.2f", float64(java)/even), fmt.Sprintf("%.2f", float64(gos)/2/even))
				if float64(java) < even/10 || float64(gos) < 2*even/10 {
					t.Errorf("%d turns of Java, %d of Go; want at least a tenth of an even share each", java, gos)
				}
			})
		}
	}
}
