package locks

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Printable returns a text that came from Redis for people: as it is, or quoted if a terminal
// would act on something in it.
func Printable(text string) string {
	if printable(text) {
		return text
	}
	return quote(text)
}

// Escaped returns a text, such as an error's, with escapes for what a terminal would act on.
func Escaped(text string) string {
	if printable(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if one := text[:size]; printable(one) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(quote(one), `"`))
		}
		text = text[size:]
	}
	return b.String()
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !Prints(r) })
}

// Prints reports whether a terminal prints a character. One that is not for UTF-8 reads each byte of it, of which some
// are control characters there: the second of "ě" starts a sequence.
func Prints(r rune) bool { return strconv.IsPrint(r) && (r < utf8.RuneSelf || forUTF8) }

func quote(text string) string {
	if forUTF8 {
		return strconv.Quote(text)
	}
	return strconv.QuoteToASCII(text)
}

// forUTF8 says that the terminal is for UTF-8, as the environment has it.
var forUTF8 = func() bool {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}()

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
