package redistest

import "github.com/relock-go/relock/internal/fips"

// WithoutFIPS runs f, and what f starts, with cryptography that FIPS 140-only mode
// refuses. It is for what stands in for a server, and for what tests compare with: the
// tests of relock themselves run in that mode.
func WithoutFIPS(f func()) { fips.Without(f) }
