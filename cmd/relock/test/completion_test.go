package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// offered returns what every shell gets to complete a name.
func offered(t testing.TB, s *redistest.Server, typed ...string) []string {
	t.Helper()
	text := prints(t, s, 0, append([]string{"__complete"}, typed...)...)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[:len(lines)-1] // the last one is for the shell
}

// Whoever may write to Redis chooses names, and a shell reads what it inserts.
func TestNamesThatAShellReadsAreNotOffered(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	good := []string{".dot", "/path/to:it", "Größe", "goods:1", "job@host+1", "nightly-report_2"}
	all := slices.Concat(good, []string{"--yes", "-n", "+x", "@x", "a\xffb", "_activeHelp_ free"})
	for _, special := range "$`\\\"'!*?[]{}()<>|&;~#%^=, \t\n\r\x00\x1b\u00a0\u009b\u202e" {
		all = append(all, "a"+string(special)+"b", string(special)+"b", "a"+string(special))
	}
	for _, name := range all {
		admin(t, s, "HSET", name, "4f1b9a52-8d9e-8c55-9d0c-000000000001:1", "1")
	}
	for _, command := range []string{"inspect", "unlock", "run"} {
		require.Equal(t, good, offered(t, s, command, ""), command)
	}
}

// Of two names that begin alike bash inserts the beginning, unquoted.
func TestBashExecutesNothingThatItCompletes(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("bash is not installed")
	}
	dir := t.TempDir()
	proof := filepath.Join(dir, "executed")
	script := start(t, command("", "completion", "bash"))
	script.ends(0)
	// What the package bash-completion has, for words without quotes.
	const words = `_init_completion() { local -; set -f; words=($COMP_LINE); [[ $COMP_LINE == *' ' ]] && words+=("")
		cword=$((${#words[@]} - 1)); cur=${words[cword]}; prev=${words[cword-1]}; }` + "\n"
	file := filepath.Join(dir, "completion")
	require.NoError(t, os.WriteFile(file, []byte(words+script.out.String()), 0o600))
	s := redistest.Start(t)
	for _, name := range []string{"$(>" + proof + ")", "`>" + proof + "`", "x;>" + proof + ";", "x\n>" + proof + "\n"} {
		for _, end := range []string{"a", "b"} {
			admin(t, s, "HSET", name+end, "4f1b9a52-8d9e-8c55-9d0c-000000000001:1", "1")
		}
		cmd := exec.Command(bash, "--norc", "--noprofile", "-i")
		cmd.Env = append(os.Environ(), "RELOCK_REDIS="+s.Addr(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"),
			"PS1=PROMPT ", "HISTFILE=", "INPUTRC=/dev/null")
		x := at(t, cmd)
		x.shows(0, "PROMPT ")
		x.types(". " + file + "; echo re\"\"ady\n")
		mark := x.shows(x.shows(0, "ready\n"), "PROMPT ")
		for range 2 { // the second reads what the first has inserted
			x.types("relock inspect \t\tgoods\n")
			mark = x.shows(mark, "goods: not locked\n")
			mark = x.shows(mark, "PROMPT ")
		}
		admin(t, s, "HSET", "goods:1", "4f1b9a52-8d9e-8c55-9d0c-000000000001:1", "1")
		x.types("relock inspect g\t\n")
		x.shows(mark, "goods:1: held")
		x.types("exit\n")
		x.ends(0)
		require.NoFileExists(t, proof, "bash has executed the name %q", name)
		admin(t, s, "FLUSHALL")
	}
}

// The manual pages and README.md name every subcommand; the pages explain every flag, README.md those of run.
func TestManualPagesAndReadmeAgreeWithTheCommand(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.ReplaceAll(string(text), `\-`, "-")
	}
	dir := t.TempDir()
	start(t, command("", "man", "--dir", dir)).ends(0)
	r := start(t, command("", "man"))
	r.ends(0)
	readme := read("../README.md")
	for _, name := range []string{"run", "list", "inspect", "unlock", "top", "doctor", "man", "completion"} {
		require.Contains(t, r.out.String(), "relock-"+name, "relock(1)")
		require.Contains(t, readme, "relock "+name)
		page := read(filepath.Join(dir, "relock-"+name+".1"))
		help := start(t, command("", name, "--help"))
		help.ends(0)
		for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(help.out.String(), -1) {
			require.Contains(t, page, "--"+flag[1], "relock-%s(1)", name)
			if name == "run" && flag[1] != "help" {
				require.Regexp(t, "`--"+flag[1]+"|--"+flag[1]+"`", readme)
			}
		}
	}
}

func TestCompletionKnowsSubcommandsFlagsAndLocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	defer hold(t, session(t, s).Mutex("goods:1"))()
	for args, want := range map[string]string{
		"do":           "doctor",
		"run --no":     "--no-wait",
		"inspect good": "goods:1",
		"unlock g":     "goods:1",
		"run go":       "goods:1",
	} {
		require.Regexp(t, `(?m)^`+want, strings.Join(offered(t, s, strings.Fields(args)...), "\n"), args)
	}
	for _, name := range []string{"bash", "zsh", "fish"} {
		script := start(t, command("", "completion", name))
		script.ends(0)
		path, err := exec.LookPath(name)
		if err != nil {
			continue // this shell is not installed
		}
		file := filepath.Join(t.TempDir(), "completion")
		require.NoError(t, os.WriteFile(file, []byte(script.out.String()), 0o600))
		start(t, exec.Command(path, "-n", file)).ends(0)
	}
}
