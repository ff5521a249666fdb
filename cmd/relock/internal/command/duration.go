package command

import (
	"fmt"
	"strconv"
	"time"
)

// duration is a flag's value: Go's notation, or seconds as flock(1) has them.
type duration struct {
	time.Duration
	set bool
}

func (d *duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		s, failed := strconv.ParseFloat(text, 64)
		if failed != nil || s > 1e9 || s != s {
			return fmt.Errorf("want a number of seconds, or a duration such as 1m30s")
		}
		v = time.Duration(s * float64(time.Second))
	}
	if v < 0 {
		return fmt.Errorf("must not be negative")
	}
	d.Duration, d.set = v, true
	return nil
}

func (d *duration) Type() string { return "D" }

func (d *duration) String() string {
	if d.Duration == 0 && !d.set {
		return ""
	}
	return d.Duration.String()
}
