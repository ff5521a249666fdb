package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
)

var subcommands = []string{"run", "list", "inspect", "unlock", "top", "doctor", "man", "completion"}

func TestManualPageNamesEverySubcommandAndFlag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, command("", "man", "--dir", dir)).ends(0)
	r := start(t, command("", "man"))
	r.ends(0)
	for _, name := range subcommands {
		if !strings.Contains(r.out.String(), "relock-"+name) {
			t.Errorf("relock(1) does not name %s", name)
		}
		page, err := os.ReadFile(filepath.Join(dir, "relock-"+name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		help := start(t, command("", name, "--help"))
		help.ends(0)
		for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(help.out.String(), -1) {
			if !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), "--"+flag[1]) {
				t.Errorf("relock-%s(1) does not explain --%s", name, flag[1])
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
		r := run(t, s, append([]string{"__complete"}, strings.Fields(args)...)...)
		r.ends(0)
		if lines := strings.Split(r.out.String(), "\n"); !strings.HasPrefix(lines[0]+"\n"+lines[1], want) &&
			!strings.Contains(r.out.String(), "\n"+want+"\n") {
			t.Errorf("%s: %q, want %q", args, &r.out, want)
		}
	}
	for _, name := range []string{"bash", "zsh", "fish"} {
		script := start(t, command("", "completion", name))
		script.ends(0)
		path, err := exec.LookPath(name)
		if err != nil {
			continue // this shell is not installed
		}
		file := filepath.Join(t.TempDir(), "completion")
		ok(t, os.WriteFile(file, []byte(script.out.String()), 0o600))
		start(t, exec.Command(path, "-n", file)).ends(0)
	}
}

// README.md names every subcommand and every flag of run, and each command line in it is one
// that relock knows.
func TestReadmeAgreesWithTheCommand(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	ok(t, err)
	readme := string(text)
	for _, name := range subcommands {
		if !strings.Contains(readme, "relock "+name) {
			t.Errorf("README.md does not name relock %s", name)
		}
	}
	help := start(t, command("", "run", "--help"))
	help.ends(0)
	for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(help.out.String(), -1) {
		if flag[1] != "help" && !strings.Contains(readme, "`--"+flag[1]) && !strings.Contains(readme, "--"+flag[1]+"`") {
			t.Errorf("README.md does not explain --%s", flag[1])
		}
	}
}
