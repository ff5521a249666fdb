package arbiter

// Side returns the side that l is.
func (l *Lock[L]) Side() Side { return l.side }

// Side returns the side that h is on.
func (h *Hold[L]) Side() Side { return h.side }
