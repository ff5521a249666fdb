package queue

import (
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }
