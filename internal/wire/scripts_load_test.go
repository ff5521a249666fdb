package wire

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// With -v it shows each script as it is sent.
func TestEveryScriptLoadsAsItIsSent(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for how := range scripts.sets {
			r.PubSub = PubSub(how)
			require.NoError(t, r.LearnDigests(ctx0, scripts.sets[how].all()))
			for _, s := range scripts.sets[how].all() {
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

// filesOf returns a copy of the files of all scripts.
func filesOf(t *testing.T) fstest.MapFS {
	t.Helper()
	files := make(fstest.MapFS)
	require.NoError(t, fs.WalkDir(luaFiles, ".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".lua") {
			var data []byte
			data, err = fs.ReadFile(luaFiles, file)
			files[file] = &fstest.MapFile{Data: data}
		}
		return err
	}))
	return files
}

func TestLuaFilesAreThoseOfTheScripts(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(luaFiles, "*.lua")
	require.NoError(t, err)
	var named []string
	for _, s := range scripts.All() {
		named = append(named, s.Name+".lua")
	}
	require.Equal(t, files, named)
	for file := range filesOf(t) {
		missing := filesOf(t)
		delete(missing, file)
		_, err := LoadScripts(missing)
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
	for file, is := range filesOf(t) {
		header, _, _ := strings.Cut(strings.TrimPrefix(string(is.Data), undeclared), "\n\n")
		require.Regexp(t, `^-- \S`, header, file)
		if strings.HasPrefix(file, "lib/") {
			continue
		}
		for _, part := range []string{"--   KEYS   ", "--   ARGV   ", "--   reply  ", "-- Sent twice: "} {
			require.Contains(t, header, "\n"+part, file)
		}
	}
}

// PUBLISH and SPUBLISH do not reach each other's subscribers, and a count of the wrong ones finds
// nobody. Only the message of a forced unlock goes to the channel of a session everywhere.
func TestScriptsPublishAndCountAsTheirDeploymentDoes(t *testing.T) {
	t.Parallel()
	literal := regexp.MustCompile(`(?i)'s?publish'(, ARGV\[1\].*, 'lost ')?|'(shard)?numsub'|\[\[`)
	for how := range scripts.sets {
		for _, s := range scripts.sets[how].all() {
			text := strings.ReplaceAll(s.Text, pubsubNames[how], "")
			text = strings.ReplaceAll(text, "if publish == 'SPUBLISH' then", "")
			for _, m := range literal.FindAllStringSubmatch(text, -1) {
				require.True(t, s.Name == "force" && m[1] != "", "%s has %s", s.Name, m[0])
			}
		}
	}
}
