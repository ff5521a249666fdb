// Package setnx has the hand-written locks of docs/setnx.md, each with a fault that its test shows.
// Do not copy them.
package setnx
