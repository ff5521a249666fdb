package locks

import (
	"fmt"
	"strconv"
	"time"
)

// Printable returns a name without characters that would upset a terminal.
func Printable(name string) string {
	for _, r := range name {
		if !strconv.IsPrint(r) {
			return strconv.Quote(name)
		}
	}
	return name
}

// HeldFor returns how long a lock has been held, for people.
func HeldFor(l Lock) string {
	switch {
	case l.Held <= 0:
		return "?"
	case l.AtLeast:
		return ">" + Short(l.Held)
	}
	return Short(l.Held)
}

// TimeToLive returns what is left of a lock's lease, for people.
func TimeToLive(l Lock) string {
	if l.TTL < 0 {
		return "never"
	}
	return Short(l.TTL)
}

// Short returns a duration with its two largest units.
func Short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
