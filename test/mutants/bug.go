package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A bug is a deliberate one.
type bug struct {
	name, title string
	changes     []change
	first       [][]string // package and tests to ask first
}

// A change replaces lines of a file.
type change struct{ file, old, new string }

// parse reads a bug; the format is in the comment of the package.
func parse(name, text string) (*bug, error) {
	title, rest, _ := strings.Cut(text, "\n")
	b := &bug{name: name, title: title}
	for line := range strings.Lines(rest) {
		body := strings.TrimSuffix(line, "\n")
		if tests, ok := strings.CutPrefix(body, "try: "); ok {
			b.first = append(b.first, strings.Fields(tests))
			continue
		}
		if file, ok := strings.CutPrefix(body, "--- "); ok {
			b.changes = append(b.changes, change{file: file})
			continue
		}
		if body == "" {
			continue
		}
		if len(b.changes) == 0 {
			return nil, fmt.Errorf("line %q comes before the name of a file", body)
		}
		c := &b.changes[len(b.changes)-1]
		switch line[0] {
		case '-':
			c.old += line[1:]
		case '+':
			c.new += line[1:]
		case ' ':
			c.old += line[1:]
			c.new += line[1:]
		default:
			return nil, fmt.Errorf("line %q starts with none of -, + and a space", body)
		}
	}
	if title == "" || len(b.changes) == 0 {
		return nil, errors.New("it needs a title and a change")
	}
	return b, nil
}

// apply returns the changed texts of files of the tree at root.
func (b *bug) apply(root string) (texts map[string]string, err error) {
	texts = make(map[string]string)
	for _, c := range b.changes {
		text, changed := texts[c.file]
		if !changed {
			read, err := os.ReadFile(filepath.Join(root, c.file))
			if err != nil {
				return nil, err
			}
			text = string(read)
		}
		if n := strings.Count("\n"+text, "\n"+c.old); n != 1 || c.old == "" {
			return nil, fmt.Errorf("%s has the lines to change %d times, not once", c.file, n)
		}
		texts[c.file] = strings.Replace("\n"+text, "\n"+c.old, "\n"+c.new, 1)[1:]
	}
	return texts, nil
}

// overlay writes the changed files to a directory, and returns the file for -overlay.
func (b *bug) overlay(tmp string) (string, error) {
	texts, err := b.apply(".")
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for file, text := range texts {
		path, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		to := filepath.Join(tmp, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = to
	}
	if err := scripts(tmp, replace); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(tmp, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}

// scripts lets the tests of internal packages see changed scripts: they read the directory lua
// itself, and not what is embedded.
func scripts(tmp string, replace map[string]string) error {
	lua, err := filepath.Abs("lua")
	if err != nil {
		return err
	}
	copied, changed := filepath.Join(tmp, "lua"), false
	for from, to := range replace {
		name, ok := strings.CutPrefix(from, lua+string(filepath.Separator))
		if !ok {
			continue
		}
		if !changed {
			if err := os.CopyFS(copied, os.DirFS(lua)); err != nil {
				return err
			}
			changed = true
		}
		text, err := os.ReadFile(to)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(copied, name), text, 0o600); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	readers, err := filepath.Glob(filepath.Join("internal", "*", "kit_test.go"))
	if err != nil {
		return err
	}
	found := false
	for _, reader := range readers {
		text, err := os.ReadFile(reader)
		if err != nil {
			return err
		}
		const dir = `os.DirFS("../../lua")`
		if !strings.Contains(string(text), dir) {
			continue
		}
		found = true
		path, err := filepath.Abs(reader)
		if err != nil {
			return err
		}
		replace[path] = filepath.Join(tmp, strings.ReplaceAll(reader, string(filepath.Separator), "-"))
		redirected := strings.ReplaceAll(string(text), dir, fmt.Sprintf("os.DirFS(%q)", copied))
		if err := os.WriteFile(replace[path], []byte(redirected), 0o600); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("no test of an internal package reads the scripts from ../../lua")
	}
	return nil
}
