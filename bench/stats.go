package main

import (
	"math"
	"slices"
)

// percentile returns the value that p per cent of the values do not exceed, and 0 if
// there are none.
func percentile[T int64 | float64](values []T, p float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := int(math.Ceil(p/100*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// The ways to make one figure of what the rounds gave.

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}

func largest(values []float64) float64 { return slices.Max(values) }
