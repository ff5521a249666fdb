package relock_test

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
)

// The scripts, to know them on the wire and to send them without relock.
var (
	acquireText, acquireSHA           = scriptOf("acquire")
	releaseText, releaseSHA           = scriptOf("release")
	_, renewSHA                       = scriptOf("renew")
	_, enterSHA                       = scriptOf("enter")
	_, lookSHA                        = scriptOf("probe")
	leaveText, leaveSHA               = scriptOf("leave")
	readText, readSHA                 = scriptOf("read")
	_, confirmReadSHA                 = scriptOf("confirm")
	_, renewReadSHA                   = scriptOf("renew_read")
	releaseReadText, releaseReadSHA   = scriptOf("release_read")
	writeText, writeSHA               = scriptOf("write")
	_, renewWriteSHA                  = scriptOf("renew_write")
	releaseWriteText, releaseWriteSHA = scriptOf("release_write")
)

// scriptOf returns the text of the script in a file of the directory lua, and what EVALSHA
// calls it.
func scriptOf(name string) (text, sha string) {
	for _, s := range peek.Scripts().All() {
		if s.Name == name {
			redistest.WithoutFIPS(func() {
				sum := sha1.Sum([]byte(s.Text))
				sha = hex.EncodeToString(sum[:])
			})
			return s.Text, sha
		}
	}
	panic("there is no script " + name)
}
