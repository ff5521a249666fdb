package wire

// writer is the kind of the write side of an RWMutex.
type writer struct{ mutex }

func (writer) family() string { return "rw" }
func (writer) suffix() string { return writeSuffix }
func (writer) handsOff() bool { return false }

func (writer) keys(name string) Keys { return rwKeys(name) }

const writeSuffix = ":write"

// rwKeys returns the names for both sides.
func rwKeys(name string) Keys {
	keys := newKeys(name, prefixRW, prefixRWQueue)
	keys.Prefix = tag(name) + ":"
	return keys
}
