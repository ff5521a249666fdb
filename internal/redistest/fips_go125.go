//go:build !go1.26

package redistest

// WithoutFIPS runs f. Before Go 1.26 it cannot do more: with GODEBUG=fips140=only the
// tests need Go 1.26.
func WithoutFIPS(f func()) { f() }
