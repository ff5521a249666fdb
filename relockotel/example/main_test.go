package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }

// start runs the example until stop is called, and returns the URL of its metrics.
func start(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"-listen", "127.0.0.1:0"}, args...), writer)
		writer.CloseWithError(io.ErrUnexpectedEOF)
		ended <- err
	}()
	t.Cleanup(cancel)
	url, err := bufio.NewReader(reader).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(url), func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	body, err := fetch(url)
	require.NoError(t, err)
	return body
}

func fetch(url string) (string, error) {
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

const patience = 3 * time.Minute // it is met only when something is broken

func TestServesMetrics(t *testing.T) {
	redis := miniredis.RunT(t)
	for what, args := range map[string][]string{
		"in memory":   {"-workers", "1"},
		"on a server": {"-redis", "redis://" + redis.Addr(), "-workers", "2"},
	} {
		t.Run(what, func(t *testing.T) {
			url, stop := start(t, args...)
			for _, kind := range []string{"mutex", "fair", "read", "write", "group"} {
				held := regexp.MustCompile(`relock_acquisitions_total\{kind="` + kind + `".*outcome="held".* [1-9]`)
				redistest.Eventually(t, patience, "held by "+kind, func() bool { return held.MatchString(get(t, url)) })
			}
			stop()
			for _, key := range redis.Keys() {
				require.False(t, strings.HasPrefix(key, prefix), "left in Redis: %s", key)
			}
		})
	}
}
