package main

import "testing"

func TestPercentileIsAValueThatSoManyDoNotExceed(t *testing.T) {
	ten := []int64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}
	for p, want := range map[float64]int64{0: 1, 10: 1, 11: 2, 50: 5, 90: 9, 99: 10, 100: 10} {
		if got := percentile(ten, p); got != want {
			t.Errorf("percentile %v: %d, want %d", p, got, want)
		}
	}
	if got := percentile[float64](nil, 50); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	if ten[0] != 10 {
		t.Error("the values were sorted in place")
	}
}

func TestRoundsBecomeOneFigure(t *testing.T) {
	values := []float64{4, 1, 100, 2}
	if got := median(values); got != 3 {
		t.Errorf("median: %v", got)
	}
	if got := median(values[:3]); got != 4 {
		t.Errorf("median: %v", got)
	}
	if got := sum(values); got != 107 {
		t.Errorf("sum: %v", got)
	}
	if got := largest(values); got != 100 {
		t.Errorf("largest: %v", got)
	}
}

func TestFiguresHaveThreeDigitsThatCount(t *testing.T) {
	for _, c := range []struct {
		unit unit
		v    float64
		want string
	}{
		{nanoseconds, 999, "999 ns"}, {nanoseconds, 1234, "1.23 µs"}, {nanoseconds, 12.5e6, "12.5 ms"},
		{nanoseconds, 3e9, "3 s"}, {nanoseconds, -1.5e6, "-1.50 ms"},
		{perSecond, 1234567.8, "1,234,568/s"}, {perSecond, 0, "0/s"},
		{number, 999.6, "1,000"}, {number, 0.01234, "0.0123"}, {number, -12345, "-12,345"},
		{byteSize, 1500, "1,500 B"}, {byteSize, 100 << 10, "100 KiB"}, {byteSize, 1.5 * (10 << 20), "15 MiB"},
		{percent, 99.95, "100.0 %"}, {times, 0.00612, "0.0061 ×"},
	} {
		if got := c.unit.format(c.v); got != c.want {
			t.Errorf("%v of unit %d: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}
