package main

import "fmt"

// herd makes a table of a herd's figures, a line for each peer, and diagrams if chart says so.
func (r *report) herd(section string, sizes []int, rows []herdRows, chart bool) {
	head := []string{"acquisitions/s, server time, commands of each, longest wait"}
	for _, n := range sizes {
		head = append(head, fmt.Sprintf("n = %d", n))
	}
	grid := [][]string{head}
	for _, p := range r.peers {
		line := []string{p.title}
		for _, at := range rows {
			line = append(line, herdCell(p, &at))
		}
		if _, ok := rows[0].rate.value(p.id); ok {
			grid = append(grid, line)
		}
	}
	r.grids[section] = grid
	if !chart {
		return
	}
	r.herds = lineChart{
		title: "What it costs if 2 to 128 processes want one lock", peers: r.peers, deep: 2,
		caption: []string{
			"From left to right: how many processes lock one name again and again, with sections of 0.5 ms.",
		},
	}
	for _, f := range []struct {
		title string
		unit  unit
		of    func(*herdRows) *row
	}{
		{"acquisitions/s", perSecond, func(h *herdRows) *row { return h.rate }},
		{"server time of each", nanoseconds, func(h *herdRows) *row { return h.server }},
		{"commands of each", number, func(h *herdRows) *row { return h.commands }},
		{"longest wait", nanoseconds, func(h *herdRows) *row { return h.longest }},
	} {
		p := panel{title: f.title, unit: f.unit}
		for i := range rows {
			p.labels, p.rows = append(p.labels, fmt.Sprint(sizes[i])), append(p.rows, f.of(&rows[i]))
		}
		r.herds.panels = append(r.herds.panels, p)
	}
}

func herdCell(p *peer, h *herdRows) string {
	rate, ok := h.rate.value(p.id)
	if !ok {
		return none
	}
	server, _ := h.server.value(p.id) // there is all or nothing of a peer
	commands, _ := h.commands.value(p.id)
	longest, _ := h.longest.value(p.id)
	return fmt.Sprintf("%.0f, %.0f µs, %.1f, %.0f ms", rate, server/1e3, commands, longest/1e6)
}
