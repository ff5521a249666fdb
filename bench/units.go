package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// unit is what a figure is counted in.
type unit int

const (
	nanoseconds unit = iota
	perSecond
	number
	byteSize
	percent
	times
)

func (u unit) format(v float64) string {
	switch u {
	case nanoseconds:
		return formatTime(v)
	case perSecond:
		return significant(v) + "/s"
	case byteSize:
		return formatBytes(v)
	case percent:
		return significant(v) + " %"
	case times:
		return significant(v) + " ×"
	default:
		return significant(v)
	}
}

func formatTime(ns float64) string {
	switch abs := math.Abs(ns); {
	case abs < 1e3:
		return significant(ns) + " ns"
	case abs < 1e6:
		return significant(ns/1e3) + " µs"
	case abs < 1e9:
		return significant(ns/1e6) + " ms"
	default:
		return significant(ns/1e9) + " s"
	}
}

func formatBytes(n float64) string {
	switch abs := math.Abs(n); {
	case abs < 10<<10:
		return significant(n) + " B"
	case abs < 10<<20:
		return significant(n/(1<<10)) + " KiB"
	default:
		return significant(n/(1<<20)) + " MiB"
	}
}

// significant formats a number with three digits that count, or all in front of the
// point, and commas between thousands.
func significant(v float64) string {
	abs := math.Abs(v)
	decimals := 0
	switch {
	case v == math.Trunc(v):
	case abs >= 100:
	case abs >= 1:
		decimals = 2 - int(math.Floor(math.Log10(abs)))
	default:
		decimals = min(4, 2-int(math.Floor(math.Log10(abs))))
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, fraction, point := strings.Cut(text, ".")
	digits := strings.TrimPrefix(whole, "-")
	sign := whole[:len(whole)-len(digits)]
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if point {
		return sign + digits + "." + fraction
	}
	return sign + digits
}

func formatFaults(f *faults) string {
	return fmt.Sprintf("%d / %d / %d", f.violations, f.stuck, f.errors)
}
