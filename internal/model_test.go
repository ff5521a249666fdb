package internal

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModelNamesWhatExists checks that the page about the model names files and functions of the code.
func TestModelNamesWhatExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/model/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Which step is what in the code")
	table, _, _ = strings.Cut(table, "\n## ")
	checked := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for group := range strings.SplitSeq(cells[2], ";") {
			text, file := "", ""
			for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(group, -1) {
				path, name, both := strings.Cut(quoted[1], ": ")
				if both || strings.Contains(path, "/") {
					code, err := os.ReadFile(filepath.Join("..", path))
					if err != nil {
						t.Error(err)
					}
					text, file = string(code), path
				} else {
					name = path
				}
				if name == "" {
					continue
				}
				checked++
				if !regexp.MustCompile(`(?m)^(local function|func|func \([^)]*\)) ` + name + `\(`).MatchString(text) {
					t.Errorf("the page of the model names %s in %s, which has no such function", name, file)
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("checked %d names only: has the table another form?", checked)
	}
}
