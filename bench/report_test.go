package main

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func somePeers() (us, renews, polls *peer) {
	return &peer{id: ours, title: "relock", renews: true, own: true},
		&peer{id: "renews", title: "renews & tells", renews: true},
		&peer{id: "polls", title: "polls <1 ms>"}
}

// someReport has a row that relock wins, one that it loses, and faults.
func someReport() *report {
	us, renews, polls := somePeers()
	r := newReport([]*peer{us, renews, polls})
	r.machine = []string{"a machine"}
	r.remark("first", "what is measured")
	rate := r.row(figure{section: "first", name: "rate", unit: perSecond, good: more, goal: 30, chart: "rate & so on"})
	for p, values := range map[*peer][]float64{us: {90, 100, 3000}, renews: {10, 1, 11}, polls: {4, 5, 6}} {
		for _, v := range values {
			rate.add(p, v)
		}
	}
	took := r.row(figure{section: "first", name: "time", unit: nanoseconds, good: less, goal: 1, renewing: true, chart: "time"})
	took.add(us, 2000)
	took.add(renews, 3000)
	took.add(polls, 1000)
	left := r.row(figure{section: "second", name: "left", unit: number, good: less})
	left.add(us, 5)
	left.add(renews, 0)
	r.outcome("first", renews, &outcome{Stuck: 1, Errors: 2, FirstError: "first"})
	r.outcome("first", renews, &outcome{Violations: 3, Errors: 1, FirstError: "first"})
	r.outcome("first", us, &outcome{})
	return r
}

func TestRelockIsComparedWithTheBestOfTheOthers(t *testing.T) {
	r := someReport()
	for _, c := range []struct {
		section, name string
		renewing      bool
		want          float64
		ok            bool
	}{
		{"first", "rate", false, 10, true}, {"first", "rate", true, 10, true},
		{"first", "time", false, 0.5, true}, {"first", "time", true, 1.5, true},
		{"second", "left", false, 0, false}, // so many times as good as nothing left
	} {
		got, ok := r.row(figure{section: c.section, name: c.name}).against(r.peers, c.renewing)
		if got != c.want || ok != c.ok {
			t.Errorf("%s, only those that renew %v: %v %v, want %v %v", c.name, c.renewing, got, ok, c.want, c.ok)
		}
	}
}

func TestTableIsAlignedAndTellsFaults(t *testing.T) {
	var b strings.Builder
	if err := someReport().print(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"a machine", "== first", "== second", "100/s", "3 / 1 / 3", "renews & tells: first",
		"≥ 30 ×: MISSED", "≥ 1 × of those that renew: met",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var starts []int // of the columns, by the head
	for line := range strings.Lines(text) {
		switch runes := []rune(strings.TrimRight(line, "\n")); {
		case strings.HasPrefix(line, "figure"):
			starts = nil
			for _, title := range []string{"relock", "renews & tells", "polls <1 ms>", "best other"} {
				starts = append(starts, utf8.RuneCountInString(line[:strings.Index(line, title)]))
			}
		case len(starts) > 0 && len(runes) > starts[2] && runes[0] != ' ' && runes[0] != '=':
			for _, at := range starts[:3] {
				if runes[at-1] != ' ' || runes[at] == ' ' {
					t.Errorf("no cell begins at %d in %q, of\n%s", at, line, text)
				}
			}
		}
	}
}

func TestMarkdownHasRowsAsWideAsTheirHead(t *testing.T) {
	var b strings.Builder
	if err := someReport().markdown(&b); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		rows++
		if got := strings.Count(line, "|"); got != 8 {
			t.Errorf("%d cells, want 7: %s", got-1, line)
		}
	}
	if rows != 2+3+2+1 {
		t.Errorf("%d rows in\n%s", rows, &b)
	}
	if !strings.Contains(b.String(), "| **100/s** |") {
		t.Errorf("the best figure is not bold in\n%s", &b)
	}
}

func TestChartIsXMLAndSaysEveryRatio(t *testing.T) {
	var b strings.Builder
	if err := someReport().svg(&b); err != nil {
		t.Fatal(err)
	}
	text := checkXML(t, strings.NewReader(b.String()))
	for _, want := range []string{"rate & so on", "polls <1 ms>", "10 ×", "20 ×", "1.50 ×", "0.500 ×"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the chart:\n%s", want, text)
		}
	}
}

func TestChartOfNothingIsXML(t *testing.T) {
	var b strings.Builder
	for _, write := range []func(*report) error{
		func(r *report) error { return r.svg(&b) },
		func(r *report) error { return r.herdSVG(&b) },
	} {
		b.Reset()
		if err := write(newReport(allPeers())); err != nil {
			t.Fatal(err)
		}
		checkXML(t, strings.NewReader(b.String()))
	}
}

func TestLimitIsForRelockAlone(t *testing.T) {
	us, renews, polls := somePeers()
	r := newReport([]*peer{us, renews, polls})
	within := r.row(figure{section: "s", name: "within", unit: number, good: less, limit: 20})
	beyond := r.row(figure{section: "s", name: "beyond", unit: number, good: less, limit: 20, goal: 2})
	for _, p := range r.peers {
		within.add(p, 19)
		beyond.add(p, 21)
	}
	within.samples[polls.id] = []float64{200}
	beyond.samples[polls.id] = []float64{200}
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"≤ 20: met", "≤ 20: MISSED"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// herdReport has two sizes of herds, of two peers.
func herdReport() *report {
	us, renews, polls := somePeers()
	r := newReport([]*peer{us, renews, polls})
	rows := make([]herdRows, 2)
	for i := range rows {
		line := func(name string, u unit) *row {
			return r.row(figure{section: "herd", name: fmt.Sprint(name, i), unit: u, good: less})
		}
		rows[i] = herdRows{
			line("rate", perSecond), line("server", nanoseconds), line("commands", number), line("wait", nanoseconds), line("client", nanoseconds),
		}
		for j, p := range []*peer{us, renews} {
			for k, row := range []*row{rows[i].rate, rows[i].server, rows[i].commands, rows[i].longest} {
				row.add(p, float64(1e6*(1+i)*(1+j)*(1+k)))
			}
		}
	}
	r.herd("herd", []int{2, 128}, rows, true)
	return r
}

func TestHerdHasATableOfItsOwn(t *testing.T) {
	var text, md strings.Builder
	r := herdReport()
	if err := r.print(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.markdown(&md); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n = 128", "2000000, 4000 µs, 6000000.0, 8 ms"} {
		if !strings.Contains(text.String(), want) || !strings.Contains(md.String(), want) {
			t.Errorf("no %q in\n%s\n%s", want, &text, &md)
		}
	}
	if strings.Contains(md.String(), "| polls &lt;1 ms> | –") {
		t.Errorf("a line of a peer that took no part:\n%s", &md)
	}
}

func TestChartOfTheHerdHasALineForEachPeer(t *testing.T) {
	var b strings.Builder
	if err := herdReport().herdSVG(&b); err != nil {
		t.Fatal(err)
	}
	text := checkXML(t, strings.NewReader(b.String()))
	for _, want := range []string{"renews & tells", "server time of each", "128"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the chart:\n%s", want, text)
		}
	}
	if lines := strings.Count(b.String(), "<polyline"); lines != 4*2 {
		t.Errorf("%d lines, want one for each of 4 figures and 2 peers:\n%s", lines, &b)
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Errorf("a point that is nowhere:\n%s", &b)
	}
}
