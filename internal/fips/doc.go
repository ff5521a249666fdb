// Package fips lets what stands in for a Redis server compute SHA-1 in FIPS 140-only mode, which
// relock and its tests also run in.
//
// It starts no goroutines and knows nothing of the module.
package fips
