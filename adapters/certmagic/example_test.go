package relockcertmagic_test

import (
	"testing"

	"github.com/caddyserver/certmagic"
	"github.com/relock-go/relock"
	relockcertmagic "github.com/relock-go/relock/adapters/certmagic"
	"github.com/relock-go/relock/internal/snippets"
)

// storage has the data of one Storage, and the locks of relock.
type storage struct {
	*relockcertmagic.Locker
	data
}

// data keeps the locks of that Storage one level down, where certmagic does not find them.
type data struct{ certmagic.Storage }

var _ certmagic.Storage = storage{}

// lockBy gives a configuration the locks of a session.
func lockBy(config *certmagic.Config, shared certmagic.Storage, session *relock.Session) {
	config.Storage = storage{relockcertmagic.NewLocker(session), data{shared}}
}

func TestREADMEHasThisProgram(t *testing.T) {
	snippets.Same(t, "README.md", "go", 30, "example_test.go")
}
