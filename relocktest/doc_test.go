package relocktest_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The test that the package documentation shows is one that runs.
func TestDocumentationShowsAnExampleThatRuns(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	examples, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	shown := regexp.MustCompile(`(?m)^//\tfunc Test(.*\n//)+?\t}\n`).FindString(string(doc))
	require.NotEmpty(t, shown)
	require.Contains(t, string(examples), regexp.MustCompile(`(?m)^//\t?`).ReplaceAllString(shown, ""))
}
