package relock

import (
	"crypto/sha1"
	"encoding/hex"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// What the tests look at.

func (s *Session) Queued(name string) int                      { return s.e.Queued(name) }
func (s *Session) QueuedRW(name string) (readers, writers int) { return s.e.QueuedRW(name) }
func (s *Session) KnowsRW() bool                               { return s.e.KnowsRW() }
func (s *Session) Listens(name string) bool                    { return s.e.Listens(name) }
func (s *Session) Watchers(name string) int                    { return s.e.Watchers(name) }
func (s *Session) Skip(d time.Duration)                        { s.e.Skip(d) }
func RedlockQueue(r *Redlock) int                              { return r.l.Queued() }
func ReadDeadline(rw *RWMutex) (time.Time, bool)               { return rw.l.ReadDeadline() }

// The scripts, to know them on the wire and to send them without relock.
var (
	AcquireText, AcquireSHA           = scriptOf("acquire")
	ReleaseText, ReleaseSHA           = scriptOf("release")
	_, RenewSHA                       = scriptOf("renew")
	_, EnterSHA                       = scriptOf("enter")
	_, LookSHA                        = scriptOf("probe")
	LeaveText, LeaveSHA               = scriptOf("leave")
	ReadText, ReadSHA                 = scriptOf("read")
	_, ConfirmReadSHA                 = scriptOf("confirm")
	_, RenewReadSHA                   = scriptOf("renew_read")
	ReleaseReadText, ReleaseReadSHA   = scriptOf("release_read")
	WriteText, WriteSHA               = scriptOf("write")
	_, RenewWriteSHA                  = scriptOf("renew_write")
	ReleaseWriteText, ReleaseWriteSHA = scriptOf("release_write")
)

// scriptOf returns the text of the script in a file of the directory lua, and what EVALSHA
// calls it.
func scriptOf(name string) (text, sha string) {
	for _, s := range scripts.All() {
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
