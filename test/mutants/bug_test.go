//go:build mutants

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever changes lines that a bug changes must move the bug along.
func TestEveryBugAppliesToTheTree(t *testing.T) {
	bugs, err := load("bugs", "")
	require.NoError(t, err)
	require.NotEmpty(t, bugs)
	for _, b := range bugs {
		texts, err := b.apply("../..")
		if assert.NoError(t, err, "%s.bug", b.name) {
			assert.NotEmpty(t, texts)
		}
	}
}

// A test that was renamed would go unasked, and its bug take minutes or stay uncaught.
func TestEveryTestThatABugNamesExists(t *testing.T) {
	bugs, err := load("bugs", "")
	require.NoError(t, err)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T`)
	for _, b := range bugs {
		for _, try := range b.first {
			pkg, tests, _ := strings.Cut(strings.Join(try, " "), " ")
			files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
			require.NoError(t, err)
			tests, _, _ = strings.Cut(tests, "/")
			run := regexp.MustCompile(tests)
			named := false
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, m := range declared.FindAllSubmatch(text, -1) {
					named = named || run.Match(m[1])
				}
			}
			require.True(t, named, "%s.bug names %s in %s", b.name, tests, pkg)
		}
	}
}

func TestDeepestFailureIsReported(t *testing.T) {
	for events, want := range map[string]string{
		"": "",
		`{"Action":"fail","Package":"github.com/relock-go/relock","Test":"TestA/b"}
{"Action":"fail","Package":"github.com/relock-go/relock","Test":"TestA"}
{"Action":"fail","Package":"github.com/relock-go/relock"}`: ". TestA/b",
		`{"Action":"output","Package":"github.com/relock-go/relock/test/virtual","Output":"panic: test timed out after 4m0s\n"}
{"Action":"output","Package":"github.com/relock-go/relock/test/virtual","Output":"\trunning tests:\n"}
{"Action":"output","Package":"github.com/relock-go/relock/test/virtual","Output":"\t\tTestB/c (4m0s)\n"}
{"Action":"fail","Package":"github.com/relock-go/relock/test/virtual"}`: "test/virtual TestB/c (timeout)",
	} {
		f, err := read([]byte(events))
		require.NoError(t, err)
		if want == "" {
			require.Nil(t, f)
			continue
		}
		require.Equal(t, want, f.String())
	}
	_, err := read([]byte(`{"ImportPath":"a","Action":"build-output","Output":"x.go:1: undefined: y"}
{"Action":"fail","Package":"a","FailedBuild":"a"}`))
	require.ErrorContains(t, err, "undefined: y")
}
