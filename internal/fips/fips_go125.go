//go:build !go1.26

package fips

// Without runs f. Before Go 1.26 it cannot do more: with GODEBUG=fips140=only the tests
// need Go 1.26.
func Without(f func()) { f() }
