package peek

import (
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/quorum"
)

var (
	// Engine returns the engine of a *relock.Session.
	Engine func(session any) *engine.Engine

	// Redlocks returns the queue of the Redlocks of a *relock.Session.
	Redlocks func(session any) *quorum.Queue
)
