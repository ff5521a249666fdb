package relock_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every Go program in README.md and docs compiles as it stands. A snippet that is not a program
// is one of a function body, in which these are declared.
const (
	snippetImports = `"context"; "errors"; "fmt"; "log"; "sync"; "time"; "github.com/redis/rueidis"; "github.com/relock-go/relock"`
	snippetParams  = `ctx context.Context, client rueidis.Client, session *relock.Session`
)

func TestDocumentedProgramsCompile(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	root, err := os.Getwd()
	require.NoError(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	dir := t.TempDir()
	for _, document := range append(documents, "README.md") {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile("(?s)\n```go\n(.*?)\n```").FindAllSubmatchIndex(text, -1) {
			line := strings.Count(string(text[:found[2]]), "\n") + 1
			n := len(overlay.Replace)
			file := filepath.Join(dir, fmt.Sprint(n, ".go"))
			require.NoError(t, os.WriteFile(file, []byte(program(document, line, string(text[found[2]:found[3]]))), 0o600))
			overlay.Replace[filepath.Join(root, "internal", "snippets", fmt.Sprint("s", n), "main.go")] = file
		}
	}
	require.NotEmpty(t, overlay.Replace)
	data, err := json.Marshal(overlay)
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, data, 0o600))
	out, err := exec.Command("go", "build", "-o", dir, "-overlay", list, "./internal/snippets/...").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// program returns a snippet as a program whose errors name the line of the document.
func program(document string, line int, snippet string) string {
	at := fmt.Sprintf("//line %s:%d\n", document, line)
	if strings.HasPrefix(snippet, "package ") {
		return at + snippet
	}
	var imports strings.Builder
	for _, path := range strings.Split(snippetImports, "; ") {
		name := strings.Trim(path[strings.LastIndex(path, "/")+1:], `"`)
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(snippet + snippetParams) {
			fmt.Fprintln(&imports, path)
		}
	}
	return "package main\nimport (\n" + imports.String() + ")\nfunc main() {}\nfunc _(" + snippetParams + ") error {\n" + at + snippet + "\nreturn nil\n}\n"
}
