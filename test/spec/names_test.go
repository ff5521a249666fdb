package spec

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Comments name what a method stands for: "issue of token.lua", "accept of wait.go".
var named = regexp.MustCompile(`\b(\w+) of ([\w/]+\.(?:lua|go))\b`)

// TestCommentsNameWhatExists checks the files and functions that comments name.
func TestCommentsNameWhatExists(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var comments strings.Builder
		for line := range strings.Lines(string(text)) {
			if comment, is := strings.CutPrefix(strings.TrimSpace(line), "//"); is && !strings.HasSuffix(file, "_test.go") {
				comments.WriteString(comment)
			}
		}
		for _, m := range named.FindAllStringSubmatch(comments.String(), -1) {
			function, path := m[1], m[2]
			if slices.Contains([]string{"those", "end", "parts"}, function) {
				continue
			}
			found++
			switch {
			case strings.HasSuffix(path, ".lua"):
				path = "lua/" + path
			case !strings.Contains(path, "/"):
				path = "internal/acquire/" + path
			}
			code, err := os.ReadFile(filepath.Join("../..", path))
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if !regexp.MustCompile(`(?m)^(local function|func|func \([^)]*\)) ` + function + `\(`).Match(code) {
				t.Errorf("%s names %s in %s, which has no such function", file, function, path)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d names were found: have comments another form?", found)
	}
}
