package multilock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
)

// What a group reports to the observers of its members' sessions.

// names returns the members' names. One that has none is named by its type.
func (g *Group) names() string {
	var names []string
	for _, l := range g.members {
		name := nameOf(l)
		if inner, ok := l.(*Group); ok {
			name = inner.names()
		} else if name == "" {
			name = fmt.Sprintf("%T", l)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func (g *Group) end(err error) engine.Ended {
	return engine.Ended{Name: g.name, Kind: engine.KindGroup, Err: err}
}

// each calls f for a member's hold, and if that is a group's also for those of its members, whose
// sessions may have observers of their own, or none.
func each(h engine.Held, f func(engine.Held)) {
	f(h)
	if inner, ok := h.(*arbiter.Hold[*hold]); ok {
		for _, h := range inner.Lease.holds {
			each(h, f)
		}
	}
}

// reportLoss reports the loss of gh, if it is lost, once.
func (g *Group) reportLoss(gh *hold, cause error) {
	if gh.State() == arbiter.Lost {
		g.told.Lose(gh, g.end(cause), groupNow())
	}
}

// errMember is the cause of a loss by a member that does not tell one.
var errMember = errors.New("a member of the group was lost")

// lose loses gh because of a member that does not say why.
func (g *Group) lose(gh *hold) {
	gh.End(arbiter.Lost)
	g.reportLoss(gh, errMember)
}

// unlocked returns the last unlock of gh, called now. It reports nothing if gh was lost: that is
// reported already, or is about to be.
func (gh *hold) unlocked() (u *engine.Unlocked) {
	if gh.State() != arbiter.Lost {
		u = engine.NewUnlocked(gh, groupNow())
	}
	return u
}

// reportEnd reports the last unlock of gh, which returns err.
func (g *Group) reportEnd(ctx context.Context, gh *hold, told *engine.Unlocked, err error) {
	if g.told == nil {
		return
	}
	if !errors.Is(err, lockerr.ErrLost) {
		told.Report(ctx, g.told, g.end(err))
		return
	}
	cause := errMember
	for _, h := range gh.holds {
		if err := h.Cause(); err != nil {
			cause = err
			break
		}
	}
	told.Lost(g.told, g.end(cause))
}
