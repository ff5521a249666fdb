package wire

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// With -v it shows each script as it is sent.
func TestEveryScriptLoadsAsItIsSent(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for how, file := range pubsubFiles {
			for _, s := range scripts.sets[how].all {
				t.Run(file+"/"+s.Name, func(t *testing.T) {
					t.Log("\n" + s.Text)
					require.Equal(t, digestOf(s), r.text("SCRIPT", "LOAD", s.Text))
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

func TestEveryLuaFileIsOfAScriptAndEveryScriptHasOne(t *testing.T) {
	t.Parallel()
	var files []string
	for file := range filesOf(t) {
		if name, ok := strings.CutSuffix(file, ".lua"); ok && !strings.HasPrefix(file, "lib/") {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	var names []string
	for _, s := range scripts.All() {
		names = append(names, s.Name)
	}
	require.Equal(t, files, names)

	for file := range filesOf(t) {
		missing := filesOf(t)
		delete(missing, file)
		_, err := LoadScripts(missing)
		require.ErrorIs(t, err, fs.ErrNotExist, "without %s", file)
		require.ErrorContains(t, err, file)
	}
}

func TestLoadScriptsRefusesFilesThatItCannotAssemble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text string // is put before the file
		err        string
	}{
		"an unknown include":          {"release.lua", "-- include: nothing\n", "release.lua: script: open lib/nothing.lua: file does not exist"},
		"an unknown include in lib":   {"lib/clock.lua", "-- include: nothing\n", "lib/clock.lua: script: open lib/nothing.lua: file does not exist"},
		"an include without a colon":  {"release.lua", "-- include clock\n", `release.lua: cannot assemble the line "-- include clock"`},
		"an include of two":           {"release.lua", "-- include: clock, fence\n", `release.lua: cannot assemble the line "-- include: clock, fence"`},
		"a script that is not known":  {"other.lua", "return 1\n", "other.lua is not used"},
		"a shared part without users": {"lib/other.lua", "return 1\n", "lib/other.lua is not used"},
		"another flag":                {"release.lua", "--!df flags=disable-atomicity\n", `release.lua: cannot assemble the line "--!df flags=disable-atomicity"`},
		"a flag after the first line": {"release.lua", "return 1\n" + undeclared, "release.lua: cannot assemble the line"},
		"a long comment":              {"release.lua", "--[[\n]]\n", `release.lua: cannot assemble the line "--[["`},
		"a long string":               {"release.lua", "local s = [[\n-- text]]\n", `release.lua: cannot assemble the line "local s = [["`},
	} {
		files := filesOf(t)
		text := c.text
		if f := files[c.file]; f != nil {
			text += string(f.Data)
		}
		files[c.file] = &fstest.MapFile{Data: []byte(text)}
		_, err := LoadScripts(files)
		require.ErrorContains(t, err, c.err, name)
	}
}

func TestScriptIncludesEachPartOnceWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	a := assembler{used: make(map[string]bool), files: fstest.MapFS{
		"lib/one.lua": {Data: []byte("-- One.\n\n-- include: two\n\none\n")},
		"lib/two.lua": {Data: []byte("two\n")},
		"top.lua":     {Data: []byte(undeclared + "-- Top.\n\n-- include: two\n-- include: one\n\ntop -- of all\n  -- include: one\n")},
		"block.lua": {Data: []byte("if\n  -- include: one\nelse\n  -- include: one\nend\n-- include: two\n" +
			"if\n  -- include: one\nend\n")},
	}}
	for file, want := range map[string]string{
		"top":   undeclared + "two\none\ntop -- of all\n",
		"block": "if\ntwo\none\nelse\ntwo\none\nend\ntwo\nif\none\nend\n",
	} {
		text, err := a.assemble(file)
		require.NoError(t, err)
		require.Equal(t, want, text, file)
	}
}

func TestWhatIsSentHasNoCommentLines(t *testing.T) {
	t.Parallel()
	idle := regexp.MustCompile(`(?m)^\s*(--.*)?$`)
	for _, s := range scripts.All() {
		text := strings.TrimSuffix(strings.TrimPrefix(s.Text, undeclared), "\n")
		require.NotRegexp(t, idle, text, s.Name)
	}
}

func TestEveryScriptStatesItsContract(t *testing.T) {
	t.Parallel()
	files := filesOf(t)
	for file := range files {
		header, _, _ := strings.Cut(strings.TrimPrefix(string(files[file].Data), undeclared), "\n\n")
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
	literal := regexp.MustCompile(`(?i)'s?publish'(, ARGV\[3\].*, 'lost ')?|'(shard)?numsub'`)
	for how, file := range pubsubFiles {
		for _, s := range scripts.sets[how].all {
			text := strings.ReplaceAll(s.Text, luaOf("lib/"+file+".lua"), "")
			text = strings.ReplaceAll(text, "if publish == 'SPUBLISH' then", "")
			for _, m := range literal.FindAllStringSubmatch(text, -1) {
				require.True(t, s.Name == "force" && m[1] != "", "%s of %s has %s", s.Name, file, m[0])
			}
		}
	}
}
