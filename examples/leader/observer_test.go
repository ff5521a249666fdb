package main

import (
	"context"
	"fmt"
	"log"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest"
)

// The observer names each leader once, by its address and the token under which it leads, however long it leads.
func TestObserverTellsAddressAndTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		var out redistest.Buffer
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		for i := range 3 {
			address := fmt.Sprintf("10.0.0.%d:80", i)
			w := &worker{client: redis.Client(), pace: time.Minute, term: time.Hour, log: log.New(&out, address+": ", 0),
				session: redis.Session(relock.WithPrefix("leader:"), relock.WithLabel(address))}
			running.Go(func() { w.work(ctx) })
		}
		session := redis.Session(relock.WithPrefix("leader:"))
		running.Go(func() { observe(ctx, session, log.New(&out, "observer: ", 0)) })
		time.Sleep(3 * time.Minute)
		for range 4 {
			redis.Lose("leader:" + lock)
			time.Sleep(3 * time.Minute)
		}
		stop()
		running.Wait()
		time.Sleep(time.Minute) // a cancelled worker gives back in the background what it was granted
		require.NotContains(t, out.String(), "cannot ask")

		leads := regexp.MustCompile(`(?m)^(\S+): leading, token (\d+)$`).FindAllStringSubmatch(out.String(), -1)
		observed := regexp.MustCompile(`(?m)^observer: (\S+) leads, token (\d+)$`).FindAllStringSubmatch(out.String(), -1)
		require.Len(t, observed, 5, out.String())
		require.Len(t, leads, len(observed), out.String())
		for i := range leads {
			require.Equal(t, leads[i][1:], observed[i][1:])
		}
		now, err := session.Inspect(t.Context(), lock)
		require.NoError(t, err)
		require.Empty(t, now.Holders)
	})
}
