// Package snippets compiles the Go code in documents, for tests.
package snippets

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Code says which code of some documents is compiled.
type Code struct {
	Documents []string // paths, relative to the test's directory, which is the root of a module
	Language  string   // of the fenced blocks: "go", or "golang"
	Imports   []string // for a block that is not a program: packages that it may use,
	Params    string   // and the parameters of the function whose body it is
}

// Compile stops the test unless every block compiles as it stands. Errors name the line of
// the document.
func Compile(t testing.TB, c Code) {
	t.Helper()
	root, err := os.Getwd()
	must(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	dir := t.TempDir()
	block := regexp.MustCompile("(?s)\n```" + c.Language + "\n(.*?)\n```")
	for _, document := range c.Documents {
		text, err := os.ReadFile(document)
		must(t, err)
		for _, found := range block.FindAllSubmatchIndex(text, -1) {
			line := strings.Count(string(text[:found[2]]), "\n") + 1
			n := len(overlay.Replace)
			file := filepath.Join(dir, fmt.Sprint(n, ".go"))
			must(t, os.WriteFile(file, []byte(c.program(document, line, string(text[found[2]:found[3]]))), 0o600))
			overlay.Replace[filepath.Join(root, "internal", "documented", fmt.Sprint("s", n), "main.go")] = file
		}
	}
	if len(overlay.Replace) == 0 {
		t.Fatalf("no %s in %v", c.Language, c.Documents)
	}
	data, err := json.Marshal(overlay)
	must(t, err)
	list := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(list, data, 0o600))
	// Which compiles, and links nothing.
	if out, err := exec.Command("go", "list", "-export", "-overlay", list, "./internal/documented/...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// program returns a block as a program.
func (c Code) program(document string, line int, block string) string {
	at := fmt.Sprintf("//line %s:%d\n", document, line)
	if strings.HasPrefix(block, "package ") {
		return at + block
	}
	var imports strings.Builder
	for _, path := range c.Imports {
		name := regexp.MustCompile(`/v\d+$`).ReplaceAllString(path, "")
		name = name[strings.LastIndex(name, "/")+1:]
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(block + c.Params) {
			fmt.Fprintf(&imports, "%s %q\n", name, path)
		}
	}
	return "package main\nimport (\n" + imports.String() + ")\nfunc main() {}\nfunc _(" + c.Params + ") error {\n{\n" + at + block + "\n}\nreturn nil\n}\n"
}

// Same fails unless every block of a language in a document is a part of a file that matches the pattern, however
// it is indented, and has at most so many lines.
func Same(t testing.TB, document, language string, lines int, pattern string) {
	t.Helper()
	text, err := os.ReadFile(document)
	must(t, err)
	files, err := filepath.Glob(pattern)
	must(t, err)
	var sources strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		must(t, err)
		sources.WriteString("\n" + flush(string(source)) + "\n")
	}
	blocks := regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```").FindAllStringSubmatchIndex(string(text), -1)
	if len(blocks) == 0 {
		t.Errorf("no %s in %s", language, document)
	}
	for _, found := range blocks {
		block := string(text[found[2]:found[3]])
		line := strings.Count(string(text[:found[2]]), "\n") + 1
		if n := strings.Count(block, "\n") + 1; n > lines {
			t.Errorf("%s:%d: %d lines, at most %d", document, line, n, lines)
		}
		if !strings.Contains(sources.String(), "\n"+flush(block)+"\n") {
			t.Errorf("%s:%d: not in %s", document, line, pattern)
		}
	}
}

// flush returns a text without the tabs at the starts of its lines.
func flush(text string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "") }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
