package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// prefixed starts relock with a prefix in its environment.
func prefixed(t testing.TB, s *redistest.Server, args ...string) *running {
	t.Helper()
	cmd := command(s.Addr(), args...)
	cmd.Env = append(cmd.Env, "RELOCK_PREFIX=lock:")
	return start(t, cmd)
}

// A program that uses WithPrefix calls its lock order:1, in logs too; so does every subcommand.
func TestPrefixIsThatOfTheProgram(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	program, err := relock.NewSession(t.Context(), s.Client(t), relock.WithPrefix("lock:"))
	require.NoError(t, err)
	defer program.Close(t.Context())
	defer hold(t, kit.NewSession(t, s).Mutex("other"))()
	m := program.Mutex("order:1")
	require.NoError(t, m.Lock(t.Context()))
	for _, args := range [][]string{{"list", "--json"}, {"list", "--json", "order:*"}, {"inspect", "--json", "order:1"}} {
		r := prefixed(t, s, args...)
		r.ends(0)
		require.Equal(t, []string{"order:1"}, namesIn(t, r.out.String()), args)
	}
	r := run(t, s, "list", "--json", "--prefix", "lock:or")
	r.ends(0)
	require.Equal(t, []string{"der:1"}, namesIn(t, r.out.String()))
	r = prefixed(t, s, "__complete", "inspect", "")
	r.ends(0)
	require.Contains(t, r.out.String(), "order:1\n")
	require.NotContains(t, r.out.String(), "other")
	prefixed(t, s, "run", "-n", "order:1", "--", "true").ends(1)
	prefixed(t, s, "run", "--prefix", "", "-n", "order:1", "--", "true").ends(0)
	x := topAt(t, s, "--prefix", "lock:")
	x.displays(`^order:1 +exclusive`)
	x.quits("q", 0)
	prefixed(t, s, "unlock", "--yes", "order:1").ends(0)
	<-m.Done()
}

func TestInspectQuietSaysItByItsStatus(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	defer hold(t, kit.NewSession(t, s).Mutex("held"))()
	for status, names := range map[int][]string{0: {"held"}, 1: {"held", "free"}} {
		r := run(t, s, append([]string{"inspect", "-q"}, names...)...)
		r.ends(status)
		require.Empty(t, r.out.String()+r.err.String())
	}
}

// The other host, whose clock is late, finds the lock taken although the job was short.
func TestMinHoldOutlivesTheCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	run(t, s, "run", "--min-hold", "1h", "-n", "nightly", "--", "true").ends(0)
	locked(t, s, "nightly", true)
	run(t, s, "run", "--min-hold", "1h", "-n", "nightly", "--", "true").ends(1)
}

func TestLabelNamesTheHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	text := run(t, s, "run", "--label", "night shift", "job", "--", program, "inspect", "--redis", s.Addr(), "job").ends(0)
	require.Contains(t, text, "by night shift\n")
	require.Regexp(t, `^relock .*go1`, run(t, s, "version").ends(0))
}

// A job of the night must not be skipped because Redis is just restarting.
func TestTimeoutCoversConnecting(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	r := run(t, s, "run", "-v", "-w", "1m", "job", "--", "true")
	r.warns("trying again")
	require.NoError(t, s.Restart())
	r.ends(0)
}

func TestHungServerIsNamed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.NoError(t, s.Freeze())
	r := run(t, s, "run", "-w", "1s", "job", "--", "true")
	r.ends(69)
	require.Contains(t, r.err.String(), s.Addr())
	require.Contains(t, r.err.String(), "does not answer")
}

func TestTLSToAPlainPortIsExplained(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := start(t, command("rediss://"+s.Addr(), "list"))
	r.ends(69)
	require.Contains(t, r.err.String(), "write redis:// instead of rediss://")
}

// Nor does it wait with -w: the address stays wrong.
func TestNoTLSToATLSPortIsExplained(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	_, address := redistest.StartTLS(t, redistest.NewAuthority(t))
	for _, args := range [][]string{{"list"}, {"run", "-w", "1m", "job", "--", "true"}} {
		r := start(t, command("redis://"+address, args...))
		r.ends(69)
		require.Contains(t, r.err.String(), "write rediss:// instead of redis://")
	}
}

// The job ends by TERM the grace before the end of --max-hold, and is told so.
func TestMaxHoldIsNamed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	began := time.Now()
	r := run(t, s, sh("--max-hold 4s --grace 1s", "job", `trap 'exit 5' TERM; while :; do sleep 0.02; done`)...)
	r.ends(5)
	require.GreaterOrEqual(t, time.Since(began), 3*time.Second)
	require.Contains(t, r.err.String(), "--max-hold")
}

func TestFlagsOfTheCommandNeedDashes(t *testing.T) {
	t.Parallel()
	r := run(t, redistest.Start(t), "run", "x", "sh", "-c", "true")
	r.ends(64)
	require.Contains(t, r.err.String(), `needs "--"`)
}

// Cobra's script needs the package bash-completion, which a server seldom has.
func TestBashCompletionNeedsNoPackage(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		lacks(t, "bash")
	}
	s := redistest.Start(t)
	defer hold(t, kit.NewSession(t, s).Mutex("goods:1"))()
	script := start(t, command("", "completion", "bash"))
	script.ends(0)
	file := filepath.Join(t.TempDir(), "completion")
	require.NoError(t, os.WriteFile(file, []byte(script.out.String()), 0o600))
	cmd := exec.Command(bash, "--norc", "--noprofile", "-c", `. "$0"; COMP_LINE="relock inspect goods:"; COMP_POINT=${#COMP_LINE}
		__start_relock; printf "%s\n" "${COMPREPLY[@]}"`, file)
	cmd.Env = append(os.Environ(), "RELOCK_REDIS="+s.Addr(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	r := start(t, cmd)
	r.ends(0)
	require.Equal(t, "1\n", r.out.String(), "what comes behind the colon, at which bash splits")
	require.NotContains(t, r.err.String(), "command not found")
}

// namesIn returns the names in what list --json prints.
func namesIn(t testing.TB, text string) (all []string) {
	t.Helper()
	for _, l := range parsed(t, text) {
		all = append(all, l.Name)
	}
	return all
}
