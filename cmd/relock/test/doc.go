// Package test uses the command relock as a person does: real processes, a terminal, a real
// Redis.
package test
