package wire

import (
	"fmt"
	"io/fs"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

// With -v it shows each script as it is sent.
func TestEveryScriptLoadsAsItIsSent(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for how := range scripts.sets {
			r.PubSub = PubSub(how)
			all := scripts.sets[how].all()
			if question := transport.DigestsQuestion(all); question != nil {
				answers, err := r.Inquire(ctx0, question)
				require.NoError(t, err)
				transport.LearnDigests(all, answers[0])
			}
			for _, s := range all {
				t.Run(fmt.Sprint(how, "/", s.Name), func(t *testing.T) {
					t.Log("\n" + s.Text)
					verb, digest := s.Call()
					require.Equal(t, []string{"EVALSHA", digestOf(s)}, []string{verb, digest})
					require.Equal(t, digest, r.text("SCRIPT", "LOAD", s.Text))
				})
			}
		}
	})
}

// luaIn returns the files of all scripts, or those that scripts need.
func luaIn(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := fs.Glob(luaFiles, pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// without is the directory of scripts without a file.
type without struct{ file string }

func (w without) Open(name string) (fs.File, error) {
	if name == w.file {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return luaFiles.Open(name)
}

func TestLuaFilesAreThoseOfTheScripts(t *testing.T) {
	t.Parallel()
	var named []string
	for _, s := range scripts.All() {
		named = append(named, s.Name+".lua")
	}
	require.Equal(t, luaIn(t, "*.lua"), named)
	for _, file := range append(luaIn(t, "*.lua"), luaIn(t, "lib/*.lua")...) {
		_, err := LoadScripts(without{file})
		require.ErrorIs(t, err, fs.ErrNotExist, "without %s", file)
		require.ErrorContains(t, err, file)
	}
}

func TestScriptHasWhatItNeedsInItsPlace(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"lib/one.lua": {Data: []byte("-- One.\n\none\n")},
		"lib/two.lua": {Data: []byte("two\n")},
		"top.lua":     {Data: []byte(undeclared + "-- Top.\n\nfirst\n\n-- needs: two, one\n\ntop -- of all\n")},
	}
	text, err := assemble(files, "top.lua", "names\n")
	require.NoError(t, err)
	require.Equal(t, undeclared+"names\nfirst\ntwo\none\ntop -- of all\n", text)
}

func TestEveryScriptStatesItsContract(t *testing.T) {
	t.Parallel()
	for pattern, parts := range map[string][]string{
		"*.lua": {"--   KEYS   ", "--   ARGV   ", "--   reply  ", "-- Sent twice: "}, "lib/*.lua": nil,
	} {
		for _, file := range luaIn(t, pattern) {
			text, err := fs.ReadFile(luaFiles, file)
			require.NoError(t, err)
			header, _, _ := strings.Cut(strings.TrimPrefix(string(text), undeclared), "\n\n")
			require.Regexp(t, `^-- \S`, header, file)
			for _, part := range parts {
				require.Contains(t, header, "\n"+part, file)
			}
		}
	}
}

// PUBLISH and SPUBLISH do not reach each other's subscribers, and a count of the wrong ones finds
// nobody. Only the messages that a lock is wanted or was forced open go to the channel of a session everywhere.
func TestScriptsPublishAndCountAsTheirDeploymentDoes(t *testing.T) {
	t.Parallel()
	const told = `(, (?:ARGV\[1\].*, '(lost) '|'relock_session:' .. sessionOf\(id\), 'wanted ' .. id))?`
	literal := regexp.MustCompile(`(?i)'s?publish'` + told + `|'(shard)?numsub'|\[\[`)
	for how := range scripts.sets {
		for _, s := range scripts.sets[how].all() {
			text := strings.ReplaceAll(s.Text, pubsubNames[how], "")
			text = strings.ReplaceAll(text, "if publish == 'SPUBLISH' then", "")
			for _, m := range literal.FindAllStringSubmatch(text, -1) {
				toHolder := strings.HasSuffix(m[0], "sessionOf(id), 'wanted ' .. id") || s.Name == "force" && m[2] == "lost"
				require.True(t, toHolder, "%s has %s", s.Name, m[0])
			}
		}
	}
}

// Every program that imports relock loads the scripts when it starts: this took 90 ms of a processor, and 138 MB.
func TestLoadingScriptsTakesLittle(t *testing.T) { // not in parallel
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := LoadScripts(luaFiles)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
}
