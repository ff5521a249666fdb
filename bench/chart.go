package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// The chart shows for each of its figures how many times as good relock is as every
// other library, on a logarithmic scale.
const (
	chartWidth  = 900
	chartLeft   = 250 // of the bars
	chartRight  = 90
	chartTop    = 64
	barHeight   = 13
	barGap      = 2
	groupGap    = 14
	chartBottom = 34
	chartTitle  = "relock is … times as fast, or as sparing, as (right of 1 ×: relock is ahead)"
)

// colours are those of the libraries in every chart, by the ids of peers. A variant of a library
// has a shade of its colour.
var colours = map[string]string{
	ours: "#c03030", "relock-fair": "#e08a8a", relockWithout: "#803030", relockWanted: "#e06090",
	"rueidislock": "#4878a8", "rueidislock-default": "#9ab8d4",
	"redislock": "#d08030", "redislock-default": "#ecc08c",
	"redsync": "#5a9a5a", "redsync-default": "#a8d0a8",
}

// svg writes the chart.
func (r *report) svg(w io.Writer) error {
	others := r.others()
	var rows []*row
	lowest, highest := 0.5, 2.0
	for _, section := range r.sections {
		for _, row := range r.rows[section] {
			if row.chart == "" {
				continue
			}
			rows = append(rows, row)
			for _, p := range others {
				if t, ok := row.against([]*peer{p}, false); ok {
					lowest, highest = min(lowest, t), max(highest, t)
				}
			}
		}
	}
	low, high := math.Floor(math.Log10(lowest)), math.Ceil(math.Log10(highest))
	x := func(t float64) float64 {
		return chartLeft + (math.Log10(t)-low)/(high-low)*(chartWidth-chartLeft-chartRight)
	}
	height := float64(chartTop + chartBottom)
	for _, row := range rows {
		height += r.groupHeight(row, others)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" font-family="sans-serif" font-size="12" role="img">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", chartTitle)
	fmt.Fprintf(&b, `<rect width="%d" height="%.0f" fill="#ffffff"/>`+"\n", chartWidth, height)
	r.legend(&b, others)
	axis(&b, low, high, height, x)
	y := float64(chartTop)
	for _, row := range rows {
		mid := y + (r.groupHeight(row, others)-groupGap)/2
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end" dominant-baseline="middle">%s</text>`+"\n", chartLeft-10, mid, xmlText(row.chart))
		at := y
		for _, p := range others {
			t, ok := row.against([]*peer{p}, false)
			if !ok {
				continue
			}
			from, to := min(x(1), x(t)), max(x(1), x(t))
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n",
				from, at, max(to-from, 1), barHeight, colours[p.id])
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" font-size="11" dominant-baseline="middle">%s</text>`+"\n",
				to+4, at+barHeight/2.0+1, xmlText(times.format(t)))
			at += barHeight + barGap
		}
		y += r.groupHeight(row, others)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// axis draws a line for each power of ten from low to high.
func axis(b *strings.Builder, low, high, height float64, x func(float64) float64) {
	for e := low; e <= high; e++ {
		at := x(math.Pow(10, e))
		colour := "#e0e0e0"
		if e == 0 {
			colour = "#404040"
		}
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", at, chartTop-6, at, height-chartBottom+4, colour)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#404040">%g ×</text>`+"\n", at, height-chartBottom+20, math.Pow(10, e))
	}
}

func (r *report) others() (others []*peer) {
	for _, p := range r.peers {
		if !p.own {
			others = append(others, p)
		}
	}
	return others
}

func (r *report) groupHeight(row *row, others []*peer) float64 {
	n := 0
	for _, p := range others {
		if _, ok := row.against([]*peer{p}, false); ok {
			n++
		}
	}
	return float64(max(n, 1)*(barHeight+barGap) + groupGap)
}

func (r *report) legend(b *strings.Builder, others []*peer) {
	fmt.Fprintf(b, `<text x="10" y="18" font-size="14" font-weight="bold">%s</text>`+"\n", chartTitle)
	legend(b, others)
}

// legend names the libraries, in one line.
func legend(b *strings.Builder, peers []*peer) {
	at := 10.0
	for _, p := range peers {
		fmt.Fprintf(b, `<rect x="%.1f" y="32" width="11" height="11" fill="%s"/>`+"\n", at, colours[p.id])
		fmt.Fprintf(b, `<text x="%.1f" y="42">%s</text>`+"\n", at+15, xmlText(p.title))
		at += 34 + 6.6*float64(len(p.title))
	}
}

func xmlText(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder does not fail
	return b.String()
}
