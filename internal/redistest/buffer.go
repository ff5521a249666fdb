package redistest

import (
	"bytes"
	"sync"
)

// A Buffer collects what goroutines and processes write. It is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex // protects text
	text bytes.Buffer
}

// Write appends to the buffer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
