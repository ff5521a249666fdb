// Package interop has no code. Its tests let relock and the real Redisson share locks;
// README.md says what they show, and how to run them.
package interop
