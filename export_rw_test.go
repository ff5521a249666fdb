package relock

import (
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// The scripts of an RWMutex, to know them on the wire and for benchmarks.
var (
	ReadText, ReadSHA                 = readScript.text, readScript.sha
	ReleaseReadText, ReleaseReadSHA   = releaseReadScript.text, releaseReadScript.sha
	WriteText, WriteSHA               = writeScript.text, writeScript.sha
	ReleaseWriteText, ReleaseWriteSHA = releaseWriteScript.text, releaseWriteScript.sha
	ConfirmReadSHA                    = confirmScript.sha
	RenewReadSHA                      = renewReadScript.sha
	RenewWriteSHA                     = renewWriteScript.sha
)

// QueuedRW returns how many readers and writers of an RWMutex wait in this session for a
// goroutine of the session; those that ask Redis are not counted.
func (s *Session) QueuedRW(name string) (readers, writers int) {
	return s.rws.Waiting(name, arbiter.Read), s.rws.Waiting(name, arbiter.Write)
}

// KnowsRW reports whether anything of an RWMutex is remembered in this session.
func (s *Session) KnowsRW() bool { return s.rws.Len() > 0 }

// ReadDeadline returns the time until which the latest read hold through rw is certain.
func ReadDeadline(rw *RWMutex) (time.Time, bool) { return rw.holdDeadline(rw.r.Latest()) }
