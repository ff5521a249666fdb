package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { redistest.RunMain(m, "handoff", main) }

// ask asks for a report and returns the status.
func ask(t *testing.T, url, account string) int {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Post(url+"/accounts/"+account+"/report", "", nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

// The account is locked from the request until a worker in another process has done the job, also while there is none.
func TestWorkerInAnotherProcessFinishesWhatARequestBegan(t *testing.T) {
	server := redistest.Start(t)
	handler := redistest.Child(t, "handoff", "-addr=127.0.0.1:0", "-redis", server.Addr(), "-no-worker")
	url, err := handler.Expect("listening on ", time.Minute)
	require.NoError(t, err)
	others := kit.NewSession(t, server, relock.WithPrefix("report:"))
	for _, account := range []string{"7", "8"} {
		require.Equal(t, http.StatusAccepted, ask(t, url, account))
		require.Equal(t, http.StatusConflict, ask(t, url, account))
	}
	require.NoError(t, handler.Interrupt())
	ok, err := others.Mutex("7").TryLock(t.Context())
	require.NoError(t, err)
	require.False(t, ok, "the process that has locked it is gone")

	worker := redistest.Child(t, "handoff", "-redis", server.Addr(), "-no-server", "-pace=1ms")
	for _, account := range []string{"7", "8"} {
		_, err = worker.Expect("reported account "+account, time.Minute)
		require.NoError(t, err)
		require.NoError(t, others.Mutex(account).Lock(t.Context()))
	}
	require.NoError(t, worker.Interrupt())
}
