package top

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/rivo/uniseg"
)

// narrow returns the table of three locks at 80 columns.
func narrow() *model {
	m := newModel(nil, Options{Server: "redis://localhost:6379", Steps: 20, Reads: 500})
	m.width, m.height, m.passes, m.steps, m.reads = 80, 24, 1, 1, 3
	add := func(name string, mode relock.Mode, waiters int, held time.Duration, atLeast bool, labels ...string) {
		l := locks.Lock{Name: name, Held: held, AtLeast: atLeast}
		l.Mode, l.Waiters, l.TTL = mode, waiters, 27*time.Second
		for _, label := range labels {
			l.Holders = append(l.Holders, relock.Holder{ID: "035846dd-2e5a-8875-8737-cb847cca035f:1", Label: label})
		}
		m.rows[name] = &row{Lock: l, read: time.Now(), locked: time.Now()}
	}
	add("deploy", relock.Exclusive, 1, 2500*time.Millisecond, false, "shop@web-1:4711")
	add("nightly-report", relock.Exclusive, 0, 2500*time.Millisecond, false, "relock@web-2:815")
	add("goods", relock.Shared, 0, 2*time.Second, true, "shop@web-1:4711", "shop@web-2:4712")
	m.arrange()
	return m
}

func text(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight(l.text, " ") + "\n")
	}
	return b.String()
}

// README.md shows the table as it looks at 80 columns.
func TestReadmeShowsTheTable(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := narrow()
	m.height = headLines + 3 + footLines
	if want := text(m.view()); !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not have:\n%s", want)
	}
}

func TestNothingIsCutAt80Columns(t *testing.T) {
	m := narrow()
	for mode := browsing; mode <= helping; mode++ {
		m.mode, m.asked = mode, m.shown[0].Lock
		m.asked.Name = strings.Repeat("long:", 12) + "end"
		m.rows["deploy"].Name, m.rows["deploy"].Holders[0].Label = m.asked.Name, "relock@a-host-with-a-long-name.example.org:471100"
		all := text(m.view())
		for l := range strings.Lines(all) {
			if uniseg.StringWidth(strings.TrimSuffix(l, "\n")) > 80 {
				t.Errorf("mode %d: %s", mode, l)
			}
		}
		whole := strings.ReplaceAll(all, "\n", "")
		if mode == asking && !strings.Contains(whole, "[y/N]") || mode == browsing && !strings.Contains(whole, m.asked.Name+"  relock@a-host-with-a-long-name.example.org:471100") {
			t.Errorf("mode %d:\n%s", mode, all)
		}
	}
}
