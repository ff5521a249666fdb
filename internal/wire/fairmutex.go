package wire

// fairMutex is the kind of a FairMutex: a Mutex whose calls all ask Redis.
type fairMutex struct{ mutex }

func (fairMutex) family() string { return "fair" }
func (fairMutex) passes() bool   { return false }
func (fairMutex) handsOff() bool { return false }
