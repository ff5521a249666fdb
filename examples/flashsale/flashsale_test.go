package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(frozenEnv) != "" {
		main() // the tests' program is that of the instance, too
		return
	}
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// sell runs the program and returns what it printed.
func sell(t *testing.T, want int, args ...string) (stdout string) {
	t.Helper()
	var out, errs bytes.Buffer
	var got int
	redistest.WithoutFIPS(func() { got = run(t.Context(), args, &out, &errs) }) // the Redis in memory computes SHA-1
	require.Equal(t, want, got, "exit status\n%s%s", &out, &errs)
	return out.String()
}

// row returns the first number in a row of the table.
func row(t *testing.T, out, name string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` +(\d+)`).FindStringSubmatch(out)
	require.NotNil(t, m, "no row %q in\n%s", name, out)
	n, _ := strconv.Atoi(m[1])
	return n
}

func TestLockedSaleSellsEachItemOnce(t *testing.T) {
	out := sell(t, 0, "-instances=3", "-buyers=40", "-stock=50")
	for name, want := range map[string]int{"sold": 50, "oversold": 0, "sold twice": 0, "came too late": 70} {
		require.Equal(t, want, row(t, out, name))
	}
	require.Equal(t, 120, row(t, out, "hand-offs")+row(t, out, "acquired in Redis"))
	require.Equal(t, 10, strings.Count(out, "....."), "a row of 50 dots")
}

func TestSaleWithoutLockOversells(t *testing.T) {
	out := sell(t, 1, "-unsafe", "-instances=2", "-buyers=100", "-stock=50", "-work=5ms")
	require.Positive(t, row(t, out, "oversold"))
	require.Positive(t, row(t, out, "sold twice"))
}

// An instance that is frozen beyond its lease writes when it goes on. Under the lock alone that sells an item twice, and
// with Hold.Eval it does not.
func TestFrozenInstanceOversellsWithPlainWritesOnly(t *testing.T) {
	server := redistest.Start(t)
	for name, args := range map[string][]string{"in memory": nil, "on a server": {"-redis", server.Addr()}} {
		t.Run(name, func(t *testing.T) {
			out := sell(t, 0, append(args, "-freeze", "-instances=2", "-buyers=10", "-stock=10")...)
			for name, want := range map[string]string{
				"sold": `11 of 10 +10 of 10`, "oversold": `1 +0`, "sold twice": `1 +0`, "late write": `made +refused`,
			} {
				require.Regexp(t, `(?m)^`+name+` +`+want+`$`, out)
			}
			require.Equal(t, 2, strings.Count(out, "is stopped (SIGSTOP)"), out)
			require.NotContains(t, out, "OVERSOLD")
		})
	}
	n, err := server.Do("DBSIZE")
	require.NoError(t, err)
	require.Zero(t, n, "left in Redis")
}

func TestInterruptedFrozenSaleEnds(t *testing.T) {
	mini, _ := redistest.Mini(t)
	var out redistest.Buffer
	status := 0
	interrupt := redistest.Running(t, func(ctx context.Context) error {
		status = run(ctx, []string{"-redis", mini.Addr(), "-freeze", "-work=10m"}, &out, io.Discard)
		return nil
	})
	redistest.Eventually(t, 20*time.Second, "the stopped instance", func() bool {
		return strings.Contains(out.String(), "SIGSTOP")
	})
	interrupt()
	require.Equal(t, 130, status)
}

func TestSaleOnServerLeavesNothingThere(t *testing.T) {
	server := redistest.Start(t)
	sell(t, 0, "-redis", server.Addr(), "-instances=2", "-buyers=20", "-stock=20")
	sell(t, 1, "-redis", "redis://"+server.Addr(), "-unsafe", "-buyers=100", "-stock=50", "-work=5ms")
	n, err := server.Do("DBSIZE")
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestInterruptedSaleEndsAndCleansUp(t *testing.T) {
	mini, _ := redistest.Mini(t)
	var status int
	interrupt := redistest.Running(t, func(ctx context.Context) error {
		status = run(ctx, []string{"-redis", mini.Addr(), "-work=10m"}, io.Discard, io.Discard)
		return nil
	})
	redistest.Eventually(t, 20*time.Second, "a buyer to have the lock", func() bool {
		return strings.Contains(strings.Join(mini.Keys(), " "), "relock_fence:")
	})
	interrupt()
	require.Equal(t, 130, status)
	require.Empty(t, mini.Keys(), "left in Redis")
}

// Somebody forces the lock open again and again, as if leases ran out. Every buyer is
// served nevertheless, and none has two orders.
func TestLostLockCostsNoBuyerTheItem(t *testing.T) {
	_, client := redistest.Mini(t)
	session := kit.SessionOn(t, client)
	in := &instance{client: client, session: session, lock: article, sale: "sale", work: 5 * time.Millisecond}
	const stock = 1000
	require.NoError(t, client.Do(t.Context(), client.B().Hset().Key("sale").FieldValue().
		FieldValue("stock", strconv.Itoa(stock)).Build()).Error())
	served := 0
	for lost := 0; served < 5 || lost < 5; served++ {
		require.Less(t, served, stock, "forced open again and again, the lock was never lost")
		forced := make(chan bool, 1)
		go func() {
			time.Sleep(in.work / 2) // so that it often falls into the sale, not that it must
			opened, _ := session.ForceUnlock(context.Background(), article)
			forced <- opened
		}()
		sold, err := in.buy(t.Context(), fmt.Sprint("order ", served))
		if <-forced {
			lost++
		}
		require.NoError(t, err)
		require.True(t, sold, "buyer %d", served)
	}
	res := &result{}
	require.NoError(t, res.count(t.Context(), client, "sale"))
	require.Equal(t, served, res.sold, "orders")
	require.Zero(t, res.twice)
}
