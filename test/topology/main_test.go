package topology_test

import (
	"testing"

	"github.com/relock-go/relock/internal/kit"
)

func TestMain(m *testing.M) { kit.MainOfAll(m) }
