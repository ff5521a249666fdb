package relocktest_test

import (
	"os"
	"strings"
	"testing"
)

// The test that the package documentation shows is one that runs.
func TestDocumentationShowsAnExampleThatRuns(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for line := range strings.Lines(string(doc)) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			shown.WriteString(code)
		} else if shown.Len() > 0 && line == "//\n" {
			shown.WriteString("\n")
		} else if shown.Len() > 0 {
			break
		}
	}
	code := strings.TrimRight(shown.String(), "\n") + "\n"
	if !strings.HasPrefix(code, "func Test") || !strings.Contains(string(examples), code) {
		t.Errorf("example_test.go does not contain this test of the documentation:\n%s", code)
	}
}
