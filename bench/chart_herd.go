package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// The charts of herds and of locality have a diagram for each of their figures, with a line for each library. The
// vertical axes are logarithmic.
const (
	panelWidth  = 440
	panelHeight = 250
	panelLeft   = 96 // of the lines: room for 10,000,000/s
	panelRight  = 20
	panelTop    = 34
	panelBottom = 34
	panelsWide  = 2
	captionLine = 16
)

// lineChart is such a chart.
type lineChart struct {
	title   string
	caption []string // lines below the diagrams
	peers   []*peer
	panels  []panel
	deep    int // rows of diagrams
}

// panel is one diagram: a figure of every peer, by what the labels say.
type panel struct {
	title  string
	unit   unit
	labels []string
	rows   []*row // one for each label
}

// present returns the peers that have figures.
func (c *lineChart) present() (peers []*peer) {
	for _, p := range c.peers {
		if slices.ContainsFunc(c.panels, func(of panel) bool { return len(of.points(p)) > 0 }) {
			peers = append(peers, p)
		}
	}
	return peers
}

// svg writes the chart.
func (c *lineChart) svg(w io.Writer) error {
	present := c.present()
	width, below := panelsWide*panelWidth, chartTop+c.deep*panelHeight
	height := below + captionLine*len(c.caption)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", xmlText(c.title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="10" y="18" font-size="14" font-weight="bold">%s</text>`+"\n", xmlText(c.title))
	legend(&b, present)
	for i := range c.panels {
		c.panels[i].draw(&b, present, float64(i%panelsWide*panelWidth), float64(chartTop+i/panelsWide*panelHeight))
	}
	for i, text := range c.caption {
		fmt.Fprintf(&b, `<text x="10" y="%d" fill="#404040">%s</text>`+"\n", below+captionLine*i, xmlText(text))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// points returns the place and the figure of each point of a peer's line.
func (p *panel) points(of *peer) (points [][2]float64) {
	for i, row := range p.rows {
		if v, ok := row.value(of.id); ok && v > 0 {
			points = append(points, [2]float64{float64(i), v})
		}
	}
	return points
}

// draw draws the diagram with its upper left corner at x, y.
func (p *panel) draw(b *strings.Builder, lines []*peer, x, y float64) {
	low, high := math.Inf(1), 0.0
	for _, line := range lines {
		for _, at := range p.points(line) {
			low, high = min(low, at[1]), max(high, at[1])
		}
	}
	if high == 0 {
		return
	}
	low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high*1.001))
	across := func(i float64) float64 {
		return x + panelLeft + i/max(float64(len(p.labels)-1), 1)*(panelWidth-panelLeft-panelRight)
	}
	down := func(v float64) float64 {
		return y + panelTop + (high-math.Log10(v))/(high-low)*(panelHeight-panelTop-panelBottom)
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-weight="bold">%s</text>`+"\n", x+panelLeft, y+panelTop-12, xmlText(p.title))
	for e := low; e <= high; e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#e0e0e0"/>`+"\n",
			x+panelLeft, down(v), x+panelWidth-panelRight, down(v))
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end" fill="#404040">%s</text>`+"\n", x+panelLeft-6, down(v)+4, xmlText(p.unit.format(v)))
	}
	for i, label := range p.labels {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#404040">%s</text>`+"\n",
			across(float64(i)), y+panelHeight-panelBottom+16, xmlText(label))
	}
	for _, line := range lines {
		colour := colours[line.id]
		var points strings.Builder
		for _, at := range p.points(line) {
			fmt.Fprintf(&points, "%.1f,%.1f ", across(at[0]), down(at[1]))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", across(at[0]), down(at[1]), colour)
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.TrimSpace(points.String()), colour)
	}
}
