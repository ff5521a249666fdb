package kit

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
)

// The scripts, to know them on the wire and to send them without relock.
var (
	AcquireText, AcquireSHA = scriptOf("acquire")
	ReleaseText, ReleaseSHA = scriptOf("release")
	_, RenewSHA             = scriptOf("renew")
	_, LookSHA              = scriptOf("look")
	_, ReadSHA              = scriptOf("read")
	_, PermitSHA            = scriptOf("permit")
	_, RenewReadSHA         = scriptOf("renew_read")
	_, ReleaseReadSHA       = scriptOf("release_read")
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
