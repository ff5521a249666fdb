package lockerr

import (
	"errors"
	"strings"
)

// Join is errors.Join with a text of one line. It returns a single error as it is.
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

func (j *joined) Error() string {
	var b strings.Builder
	for i, err := range j.errs {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return b.String()
}

func (j *joined) Unwrap() []error { return j.errs }

// Hide returns err such that errors.Is does not find what, but all else in err. If err is what
// itself, Hide returns nil.
func Hide(err, what error) error {
	switch {
	case err == what:
		return nil
	case !errors.Is(err, what):
		return err
	}
	return &hidden{err, what}
}

// hidden has no Unwrap, which would lead errors.Is to what.
type hidden struct{ err, what error }

func (h *hidden) Error() string        { return h.err.Error() }
func (h *hidden) Is(target error) bool { return target != h.what && errors.Is(h.err, target) }
func (h *hidden) As(target any) bool   { return errors.As(h.err, target) }
