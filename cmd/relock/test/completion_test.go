package test

import (
	"os"
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
	text := run(t, s, append([]string{"__complete"}, typed...)...).ends(0)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[:len(lines)-1] // the last one is for the shell
}

// Whoever may write to Redis chooses names, and a shell reads what it inserts.
func TestNamesThatAShellReadsAreNotOffered(t *testing.T) {
	s := server(t)
	good := []string{".dot", "/path/to:it", "Größe", "goods:1", "job@host+1", "nightly-report_2"}
	all := slices.Concat(good, []string{"--yes", "-n", "+x", "@x", "a\xffb", "_activeHelp_ free"})
	for _, special := range "$`\\\"'!*?[]{}()<>|&;~#%^=, \t\n\r\x00\x1b\u00a0\u009b\u202e" {
		all = append(all, "a"+string(special)+"b", string(special)+"b", "a"+string(special))
	}
	holds(t, s, all...)
	for _, command := range []string{"inspect", "unlock", "run"} {
		require.Equal(t, good, offered(t, s, command, ""), command)
		require.Equal(t, good[3:4], offered(t, s, command, "go"), command)
	}
	require.Contains(t, offered(t, s, "run", "--no")[0], "--no-wait")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.Contains(t, start(t, command("", "completion", shell)).ends(0), "__complete", shell)
	}
}

// Of two names that begin alike bash inserts the beginning, unquoted.
func TestBashExecutesNothingThatItCompletes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proof := filepath.Join(dir, "executed")
	script := start(t, command("", "completion", "bash")).ends(0)
	// What the package bash-completion has, for words without quotes.
	const words = `_init_completion() { local -; set -f; words=($COMP_LINE); [[ $COMP_LINE == *' ' ]] && words+=("")
		cword=$((${#words[@]} - 1)); cur=${words[cword]}; prev=${words[cword-1]}; }` + "\n"
	file := filepath.Join(dir, "completion")
	require.NoError(t, os.WriteFile(file, []byte(words+script), 0o600))
	s := redistest.Start(t)
	for _, name := range []string{"$(>" + proof + ")", "`>" + proof + "`", "x;>" + proof + ";", "x\n>" + proof + "\n"} {
		holds(t, s, name+"a", name+"b")
		x := shell(t, s)
		x.types(". "+file+"; echo re\"\"ady\n", "ready\n", "PROMPT ")
		for range 2 { // the second reads what the first has inserted
			x.types("relock inspect \t\tgoods\n", "goods: not locked\n", "PROMPT ")
		}
		holds(t, s, "goods:1")
		x.types("relock inspect g\t\n", "goods:1: held")
		x.quits("exit\n", 0)
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
	list := start(t, command("", "man")).ends(0)
	readme := read("../README.md")
	for _, name := range []string{"run", "list", "inspect", "unlock", "top", "doctor", "man", "completion"} {
		require.Contains(t, list, "relock-"+name, "relock(1)")
		require.Contains(t, readme, "relock "+name)
		page := read(filepath.Join(dir, "relock-"+name+".1"))
		help := start(t, command("", name, "--help")).ends(0)
		for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(help, -1) {
			require.Contains(t, page, "--"+flag[1], "relock-%s(1)", name)
			if name == "run" && flag[1] != "help" {
				require.Regexp(t, "`--"+flag[1]+"|--"+flag[1]+"`", readme)
			}
		}
	}
}
