package lockerr

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What errors look like: one line each, however many are joined, and nothing that means something
// only to relock's authors.

const prefix = "relock: "

// noise is what Redis adds to the error of a command in a script: the script's digest and line.
var noise = regexp.MustCompile(`(?:ERR )?Error running script \(call to f_[0-9a-f]{40}\): |` +
	`@user_script: ?\d+: -?| script: [0-9a-f]{40}, on @user_script:\d+\.?|\bf_[0-9a-f]{40}\b:? ?`)

// text returns the text of err as part of another one.
func text(err error) string {
	return strings.ReplaceAll(line(err), prefix, "")
}

// line returns the text of err in one line.
func line(err error) string {
	s := noise.ReplaceAllString(err.Error(), "")
	if strings.Contains(s, "\n") {
		s = strings.Join(slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return l == "" }), "; ")
	}
	return s
}

// nameMost is how many bytes of a name are shown. It may be longer, then it is refused.
const nameMost = 1024

// Quote quotes the name of a lock.
func Quote(name string) string {
	if len(name) > nameMost {
		return strconv.Quote(name[:nameMost]) + "..."
	}
	return strconv.Quote(name)
}

// Join is errors.Join with a text of one line. A single error is returned as it is.
func Join(errs ...error) error {
	var all []error
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &joined{all}
}

type joined struct{ errs []error }

// Error joins the texts of all errors. The package is named once.
func (j *joined) Error() string {
	var b strings.Builder
	for i, err := range j.errs {
		s := line(err)
		if i > 0 {
			b.WriteString("; ")
			if strings.HasPrefix(line(j.errs[0]), prefix) {
				s = strings.TrimPrefix(s, prefix)
			}
		}
		b.WriteString(s)
	}
	return b.String()
}

// Unwrap returns the errors.
func (j *joined) Unwrap() []error { return j.errs }

// Tried returns a failure to lock as that of a call that waits, or of one that only tries,
// whichever of them failed on the way.
func Tried(err error, tries bool) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	op := strings.TrimPrefix(e.op, "try ")
	if tries {
		op = "try " + op
	}
	return &Error{op, e.name, e.errs}
}

// Bare returns err without the operation and name that New gave it.
func Bare(err error) error {
	if e, ok := err.(*Error); ok {
		return Join(e.errs...)
	}
	return err
}
