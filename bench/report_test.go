package main

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	limited := figure{section: "second", name: "within", unit: number, good: less, limit: 20}
	r.row(limited).add(us, 19)
	limited.name = "beyond"
	r.row(limited).add(us, 21)
	r.outcome("first", renews, &outcome{Stuck: 1, Errors: 2, FirstError: "first"})
	r.outcome("first", renews, &outcome{Violations: 3, Errors: 1, FirstError: "first"})
	r.outcome("first", us, &outcome{})
	return r
}

func TestRelockIsComparedWithTheBestOther(t *testing.T) {
	r := someReport()
	against := func(section, name string, renewing bool) float64 {
		times, ok := r.row(figure{section: section, name: name}).against(r.peers, renewing)
		assert.Equal(t, section == "first", ok, "%s: so many times as good as nothing left", name)
		return times
	}
	assert.Equal(t, []float64{10, 10, 0.5, 1.5, 0}, []float64{
		against("first", "rate", false), against("first", "rate", true),
		against("first", "time", false), against("first", "time", true), against("second", "left", false),
	})
}

func TestReportsSayEveryFigure(t *testing.T) {
	some, herds := someReport(), herdReport()
	for name, c := range map[string]struct {
		write func(io.Writer) error
		xml   bool
		want  []string
	}{
		"text": {some.print, false, []string{
			"a machine", "== first", "== second", "100/s", "3 / 1 / 3", "renews & tells: first",
			"≥ 30 ×: MISSED", "≥ 1 × of those that renew: met", "≤ 20: met", "≤ 20: MISSED",
		}},
		"markdown":      {some.markdown, false, []string{"| **100/s** |"}},
		"chart":         {some.svg, true, []string{"rate & so on", "polls <1 ms>", "10 ×", "20 ×", "1.50 ×", "0.500 ×"}},
		"herd":          {herds.print, false, []string{"n = 128", "2000000, 4000 µs, 6000000.0, 8 ms"}},
		"herd markdown": {herds.markdown, false, []string{"n = 128", "2000000, 4000 µs, 6000000.0, 8 ms"}},
		"herd chart":    {herds.herds.svg, true, []string{"renews & tells", "server time of each", "128"}},
		"nothing":       {newReport(allPeers()).svg, true, nil},
		"no herd":       {new(lineChart).svg, true, nil},
	} {
		var b strings.Builder
		require.NoError(t, c.write(&b))
		text := b.String()
		assert.NotRegexp(t, "NaN|Inf", text, "%s: a point that is nowhere", name)
		if c.xml {
			text = checkXML(t, text)
		}
		for _, want := range c.want {
			assert.Contains(t, text, want, name)
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

// Labels have the room that they need: the axis of the fastest figures has the longest.
func TestLabelsOfTheAxisAreNotCutOff(t *testing.T) {
	var b strings.Builder
	p := &peer{id: ours, title: "relock", own: true}
	r := newReport([]*peer{p})
	of := r.row(figure{section: "locality", name: "rate", unit: perSecond, good: more})
	of.add(p, 9e6)
	c := lineChart{peers: r.peers, deep: 1, panels: []panel{
		{title: "Lock+Unlock", unit: perSecond, labels: []string{"100 %"}, rows: []*row{of}},
	}}
	require.NoError(t, c.svg(&b))
	labels := regexp.MustCompile(`<text x="([0-9.]+)"[^>]* text-anchor="end"[^>]*>([^<]*)</text>`).FindAllStringSubmatch(b.String(), -1)
	require.NotEmpty(t, labels)
	for _, label := range labels {
		x, err := strconv.ParseFloat(label[1], 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, x, 7*float64(utf8.RuneCountInString(label[2])), label[2])
	}
	require.Contains(t, b.String(), ">10,000,000/s<")
}
