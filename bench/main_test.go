package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/snippets"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if env, ok := os.LookupEnv(workerEnv); ok {
		os.Exit(runWorker(env, os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

func TestQuickRunHasEveryScenarioOfEveryLibrary(t *testing.T) {
	redistest.Start(t) // skips the test where there is none
	dir := t.TempDir()
	md, svg := filepath.Join(dir, "table.md"), filepath.Join(dir, "chart.svg")
	herd, sweep := filepath.Join(dir, "herd.svg"), filepath.Join(dir, "locality.svg")
	var out, errs bytes.Buffer
	if status := run(t.Context(), []string{"-quick", "-md", md, "-svg", svg, "-herd", herd, "-sweep", sweep}, &out, &errs); status != 0 {
		t.Fatalf("exit status %d\n%s\n%s", status, &out, &errs)
	}
	text, err := os.ReadFile(md)
	require.NoError(t, err)
	sections := strings.Split(string(text), "\n**")[1:]
	require.Len(t, sections, 2*(len(scenarios)+1), "uncontended has two")
	for _, s := range sections {
		title, _, _ := strings.Cut(s, "**")
		var head, faults []string
		for line := range strings.Lines(s) {
			cells := strings.Split(line, " | ")
			switch {
			case strings.HasPrefix(line, "| figure"), strings.HasPrefix(line, "| acquisitions"):
				head = cells
			case strings.HasPrefix(line, "| violations"):
				faults = cells
			}
			if strings.HasPrefix(line, "| ") {
				assert.Len(t, cells, len(head), "%s: %s", title, line)
			}
		}
		require.NotEmpty(t, faults, title)
		assert.Equal(t, "0 / 0 / 0", faults[1], "%s: violations, stuck waiters and errors of relock", title)
		// Whoever waits as another one does not take part twice.
		for i, cell := range faults[1:min(len(faults), 1+len(allPeers()))] {
			if p := allPeers()[i]; cell == none && !p.again && !(p.defaults && (strings.HasPrefix(title, "a herd") || strings.HasPrefix(title, "locality"))) {
				t.Errorf("%s: nothing of %s", title, p.title)
			}
		}
	}
	for _, name := range []string{svg, herd, sweep} {
		chart, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Contains(t, checkXML(t, string(chart)), "rueidislock", name)
	}
}

// checkXML fails the test if a document is not well-formed, and returns the character data.
func checkXML(t *testing.T, document string) (text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(document)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text
		}
		require.NoError(t, err)
		if data, ok := token.(xml.CharData); ok {
			text += string(data) + "\n"
		}
	}
}

// What the guides say of other libraries compiles with the versions of go.mod.
func TestGuidesCompile(t *testing.T) {
	documents, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	snippets.Compile(t, snippets.Code{
		Documents: documents,
		Language:  "golang",
		Imports: []string{
			"context", "errors", "log", "time", "github.com/relock-go/relock", "github.com/redis/rueidis", "github.com/bsm/redislock",
			"github.com/go-redsync/redsync/v4", "github.com/redis/rueidis/rueidislock",
		},
		Params: "ctx context.Context, client rueidis.Client, session *relock.Session, " +
			"rs *redsync.Redsync, rl *redislock.Client, locker rueidislock.Locker, work func(context.Context) error",
	})
}
