package kit

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
)

// The scripts, to know them on the wire and to send them without relock.
var (
	AcquireText, AcquireSHA = scriptOf("mutex_acquire")
	ReleaseText, ReleaseSHA = scriptOf("mutex_release")
	_, WriteSHA             = scriptOf("write_acquire")
	_, ReadSHA              = scriptOf("read_acquire")
	_, PermitSHA            = scriptOf("permit_acquire")
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
