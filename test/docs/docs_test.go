// Package docs_test checks that what documents and comments name exists: files, anchors of
// headings, tests, and exported identifiers of the package.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// tree has what documents may name.
type tree struct {
	files       []string        // relative to the root
	tests       map[string]bool // functions of tests, benchmarks and examples
	identifiers map[string]bool // exported by the package: Name, and Type.Method or Type.Field
	comments    map[string]string
}

func read(t *testing.T) *tree {
	tr := &tree{
		tests: map[string]bool{}, identifiers: map[string]bool{}, comments: map[string]string{},
	}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == ".git", d.IsDir() && d.Name() == "node_modules":
			return filepath.SkipDir
		}
		tr.files = append(tr.files, filepath.ToSlash(name))
		if strings.HasSuffix(name, ".go") {
			tr.parse(t, path, name)
		}
		return nil
	}))
	return tr
}

var testFunction = regexp.MustCompile(`^(Test|Benchmark|Example|Fuzz)`)

// parse notes what a Go file declares, and its comments.
func (tr *tree) parse(t *testing.T, path, name string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	require.NoError(t, err)
	for _, group := range file.Comments {
		for _, c := range group.List {
			tr.comments[name] += c.Text + "\n"
		}
	}
	public := filepath.Dir(name) == "." && file.Name.Name == "relock"
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if testFunction.MatchString(d.Name.Name) {
				tr.tests[d.Name.Name] = true
			}
			if public && d.Recv == nil {
				tr.identifiers[d.Name.Name] = true
			} else if public {
				of := d.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				tr.identifiers[of.(*ast.Ident).Name+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				tr.declare(s, public)
			}
		}
	}
}

func (tr *tree) declare(s ast.Spec, public bool) {
	if !public {
		return
	}
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			tr.identifiers[n.Name] = true
		}
	case *ast.TypeSpec:
		tr.identifiers[s.Name.Name] = true
		var fields *ast.FieldList
		switch of := s.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				tr.identifiers[s.Name.Name+"."+n.Name] = true
			}
			if len(f.Names) == 0 { // what it embeds
				if of, ok := f.Type.(*ast.Ident); ok {
					tr.identifiers[s.Name.Name+" has "+of.Name] = true
				}
			}
		}
	}
}

// has reports whether the package exports Name, or Type.Member, which may be of a type that it
// embeds.
func (tr *tree) has(name string) bool {
	if tr.identifiers[name] {
		return true
	}
	of, member, ok := strings.Cut(name, ".")
	if !ok {
		return false
	}
	for id := range tr.identifiers {
		if outer, inner, ok := strings.Cut(id, " has "); ok && outer == of && tr.has(inner+"."+member) {
			return true
		}
	}
	return false
}

// hasFile reports whether there is a file, or directory, of that name: from the directory of the
// document or the root, or the end of a path.
func (tr *tree) hasFile(from, name string) bool {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if _, err := os.Stat(filepath.Join(root, filepath.Dir(from), name)); err == nil {
		return true
	}
	return slices.ContainsFunc(tr.files, func(f string) bool {
		return f == name || strings.HasSuffix(f, "/"+name)
	})
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	fileName = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*\.(go|lua|md|sh|yml|yaml|svg)$`)
	inText   = regexp.MustCompile(`\b[\w-]+(?:/[\w-]+)*\.(?:lua|md|go)\b`)
	testName = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	member   = regexp.MustCompile(`^(?:relock\.)?([A-Z]\w*)\.([A-Z]\w*)(?:\(.*\))?$`)
	exported = regexp.MustCompile(`^relock\.([A-Z]\w*)(?:\(.*\))?$`)
	docLink  = regexp.MustCompile(`\[([A-Z]\w*(?:\.[A-Z]\w*)?)\][^(:\w]`)
)

// anchor is what GitHub makes of a heading.
func anchor(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

// anchors returns those of a document.
func anchors(t *testing.T, path string) (all []string) {
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		plain := strings.NewReplacer("`", "", "[", "", "*", "").Replace(m[1])
		all = append(all, anchor(link.ReplaceAllString(plain, "")))
	}
	return all
}

// TestDocumentsNameWhatExists checks the documents. CHANGELOG.md tells of the past.
func TestDocumentsNameWhatExists(t *testing.T) {
	tr := read(t)
	for _, doc := range tr.files {
		if !strings.HasSuffix(doc, ".md") || doc == "CHANGELOG.md" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, doc))
		require.NoError(t, err)
		text := fenced.ReplaceAllString(string(content), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			path := doc
			if to != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(doc), to))
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: there is no %s", doc, to)
			} else if fragment == "" || !strings.HasSuffix(path, ".md") {
				continue
			} else if !slices.Contains(anchors(t, path), fragment) {
				t.Errorf("%s: %s has no heading #%s", doc, path, fragment)
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			tr.check(t, doc, m[1])
		}
	}
}

// check checks what stands between backquotes.
func (tr *tree) check(t *testing.T, doc, word string) {
	if fileName.MatchString(word) && !tr.hasFile(doc, word) && !slices.Contains(made, word) {
		t.Errorf("%s: there is no file %s", doc, word)
	}
	for _, name := range testName.FindAllString(word, -1) {
		if !tr.tests[name] && !(strings.Contains(word, "-run") && tr.hasTests(name)) {
			t.Errorf("%s: there is no %s", doc, name)
		}
	}
	if m := exported.FindStringSubmatch(word); m != nil && !tr.has(m[1]) {
		t.Errorf("%s: the package has no %s", doc, m[1])
	}
	if m := member.FindStringSubmatch(word); m != nil && tr.has(m[1]) && !tr.has(m[1]+"."+m[2]) {
		t.Errorf("%s: the package has no %s.%s", doc, m[1], m[2])
	}
}

// made are files that a command writes.
var made = []string{"peers.md", "peers.svg"}

// hasTests reports whether -run with that name runs any.
func (tr *tree) hasTests(name string) bool {
	for test := range tr.tests {
		if strings.Contains(test, name) {
			return true
		}
	}
	return false
}

// TestCommentsNameWhatExists checks comments of Go files, and of the scripts: files, tests, and, in
// the package itself, links.
func TestCommentsNameWhatExists(t *testing.T) {
	tr := read(t)
	for _, name := range tr.files {
		if strings.HasSuffix(name, ".lua") {
			content, err := os.ReadFile(filepath.Join(root, name))
			require.NoError(t, err)
			for line := range strings.Lines(string(content)) {
				if _, comment, ok := strings.Cut(line, "--"); ok {
					tr.comments[name] += comment
				}
			}
		}
	}
	for name, text := range tr.comments {
		for _, word := range inText.FindAllString(text, -1) {
			if !tr.hasFile(name, word) {
				t.Errorf("%s: there is no file %s", name, word)
			}
		}
		for _, word := range testName.FindAllString(text, -1) {
			if !tr.tests[word] {
				t.Errorf("%s: there is no %s", name, word)
			}
		}
		if filepath.Dir(name) != "." || strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			if !tr.has(m[1]) {
				t.Errorf("%s: the package has no %s", name, m[1])
			}
		}
	}
}
