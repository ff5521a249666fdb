//go:build go1.26

package fips

import "crypto/fips140"

// Without runs f, and what f starts, with cryptography that FIPS 140-only mode refuses.
func Without(f func()) { fips140.WithoutEnforcement(f) }
