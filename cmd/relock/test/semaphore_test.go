package test

import (
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// With --slots N up to N commands run at a time, each with a number of its own; one permit can be opened alone.
func TestRunWithSlots(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, endFirst := waiting(t, command(s.Addr(), sh("--slots=2", "gpu", waits)...))
	_, _ = waiting(t, command(s.Addr(), sh("--slots=2", "gpu", waits)...))
	run(t, s, "run", "-n", "--slots", "2", "gpu", "--", "true").ends(1)
	require.Regexp(t, `^slot 2 token \d+\n$`, run(t, s, sh("--slots=3", "gpu", `echo "slot $RELOCK_SLOT token $RELOCK_TOKEN"`)...).ends(0))
	run(t, s, "run", "gpu", "--", "true").ends(65) // it is no lock
	run(t, s, "run", "--slots", "0", "gpu", "--", "true").ends(64)

	all := parsed(t, run(t, s, "list", "--json", "g*").ends(0))
	require.Len(t, all, 1)
	require.Equal(t, "semaphore", all[0].Kind)
	require.Len(t, all[0].Holders, 2)
	require.Contains(t, run(t, s, "list").ends(0), "semaphore")
	text := run(t, s, "inspect", "gpu").ends(0)
	require.Contains(t, text, "gpu: held (semaphore, 2 of 3 permits)")
	require.Contains(t, text, ", slot 1\n")

	run(t, s, "unlock", "--yes", "--holder", "nobody", "gpu").ends(1)
	run(t, s, "unlock", "--yes", "--holder", all[0].Holders[1].ID, "gpu").ends(0)
	session := kit.NewSession(t, s)
	redistest.Eventually(t, soon, "one holder is left", func() bool {
		state, err := session.Inspect(t.Context(), "gpu")
		return err == nil && len(state.Holders) == 1 && state.Holders[0].ID == all[0].Holders[0].ID
	})
	endFirst()
	locked(t, s, "gpu", false)

	// what an outer semaphore says is not passed on
	inner := append([]string{program}, sh("", "inner", `echo "${RELOCK_SLOT-none}"`)...)
	require.Equal(t, "none\n", run(t, s, append(sh("--slots=2", "gpu", `exec "$0" "$@"`), inner...)...).ends(0))
}
