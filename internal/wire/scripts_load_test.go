package wire

import (
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

// With -v it shows each script as it is sent.
func TestEveryScriptLoadsAsItIsSent(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		all := r.Scripts()
		if question := transport.DigestsQuestion(all); question != nil {
			answers, err := r.Inquire(ctx0, question)
			require.NoError(t, err)
			transport.LearnDigests(all, answers[0])
		}
		for _, s := range all {
			t.Run(s.Name, func(t *testing.T) {
				t.Log("\n" + s.Text)
				verb, digest := s.Call()
				require.Equal(t, []string{"EVALSHA", digestOf(s)}, []string{verb, digest})
				require.Equal(t, digest, r.text("SCRIPT", "LOAD", s.Text))
			})
		}
	})
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
	for _, file := range luaIn(t) {
		_, err := LoadScripts(without{file})
		require.ErrorIs(t, err, fs.ErrNotExist, "without %s", file)
		require.ErrorContains(t, err, file)
	}
}

func TestScriptHasWhatItNeedsInItsPlace(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"one.lua": {Data: []byte("-- One.\n\none\n")},
		"two.lua": {Data: []byte("two\n")},
		"top.lua": {Data: []byte(undeclared + "-- Top.\n\nfirst\n\n-- needs: two, one\n\ntop -- of all\n")},
	}
	text, err := assemble(files, "top.lua")
	require.NoError(t, err)
	require.Equal(t, undeclared+"first\ntwo\none\ntop -- of all\n", text)
}

func TestEveryScriptStatesItsContract(t *testing.T) {
	t.Parallel()
	for _, file := range luaIn(t) {
		text, err := fs.ReadFile(luaFiles, file)
		require.NoError(t, err)
		header, _, _ := strings.Cut(strings.TrimPrefix(string(text), undeclared), "\n\n")
		require.Regexp(t, `^-- \S`, header, file)
		if slices.Contains(sharedFiles(t), file) {
			continue
		}
		for _, part := range []string{"--   KEYS", "ARGV", "reply  ", "-- Sent twice: "} {
			require.Contains(t, header, part, file)
		}
	}
}

// luaIn returns all Lua files.
func luaIn(t *testing.T) []string {
	t.Helper()
	files, err := fs.Glob(luaFiles, "*.lua")
	require.NoError(t, err)
	return files
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
