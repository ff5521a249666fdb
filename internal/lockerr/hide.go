package lockerr

import "errors"

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
