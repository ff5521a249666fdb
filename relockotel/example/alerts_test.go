package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
)

// alerts_test.yml has for each alert a case in which it fires and one in which it does not. TestAlerts runs them.
func TestEveryAlertIsTestedBothWays(t *testing.T) {
	alerts, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	cases, err := os.ReadFile("../grafana/alerts_test.yml")
	require.NoError(t, err)
	all := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(alerts), -1)
	require.NotEmpty(t, all)
	for _, alert := range all {
		require.Regexp(t, `labels: '\{alertname="`+alert[1]+`".*value: 1`, string(cases), "it fires nowhere")
		require.Regexp(t, `alertname: `+alert[1]+`, eval_time: \w+, exp_alerts: \[\]`, string(cases), "it is silent nowhere")
	}
}

const (
	scrape     = 5 * time.Second // also between evaluations, as alerts.yml says
	alertsCase = `
  - interval: 5s
    input_series:
%s    promql_expr_test:
      - {expr: "count(ALERTS{alertstate='firing'})", eval_time: %v, exp_samples: []}
      - expr: count(ALERTS{alertname='RelockRenewalsFail', alertstate='firing'})
        eval_time: %v
        exp_samples: [{value: 1, labels: "{}"}]
      - expr: count(ALERTS{alertname='RelockLockLost', alertstate='firing'})
        eval_time: %v
        exp_samples: [{value: 1, labels: "{}"}]
`
)

// What the library really reports when Redis hangs, whenever it does between two renewals, scraped every 5 s: the alert
// fires before the loss, also on a server that evaluates 5 s after it has scraped.
func TestRenewalsFailBeforeTheLoss(t *testing.T) {
	promtool := tool(t, "promtool")
	alerts, err := filepath.Abs(alertsFile)
	require.NoError(t, err)
	cases := fmt.Sprintf("rule_files: [%q]\nevaluation_interval: 5s\ntests:\n", alerts)
	for hang := 31 * time.Second; hang < 41*time.Second; hang += 900 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			series, lost := hangsAfter(t, hang)
			before, after := (lost - scrape).Truncate(scrape), lost.Truncate(scrape)+2*scrape
			require.Less(t, hang, before, "nothing is left for the alert")
			cases += fmt.Sprintf(alertsCase, series, hang.Truncate(scrape), before, after)
		})
	}
	file := filepath.Join(t.TempDir(), "loss_test.yml")
	require.NoError(t, os.WriteFile(file, []byte(cases), 0o600))
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, cases)
}

// hangsAfter holds a lock until it is lost, since Redis hangs from then on. It returns when it was lost, and what was
// scraped until 10 s after that, as input of promtool.
func hangsAfter(t *testing.T, hang time.Duration) (series string, lost time.Duration) {
	t.Helper()
	observer, metrics, err := observe()
	require.NoError(t, err)
	redis := relocktest.New(t)
	session := redis.Session(relock.WithObserver(observer))
	start := time.Now()
	mutex := session.Mutex("order")
	require.NoError(t, mutex.Lock(t.Context()))
	time.AfterFunc(hang, func() { redis.Partition(session) })

	values := make(map[string]string)
	scrapes := 0
	for ; lost == 0 || time.Since(start) < lost+2*scrape+time.Second; scrapes++ {
		scraped(t, metrics, values, scrapes)
		select {
		case <-mutex.Done():
			if lost == 0 {
				require.ErrorIs(t, mutex.Err(), relock.ErrExpired)
				lost = time.Since(start)
			}
			time.Sleep(scrape - time.Since(start)%scrape)
		case <-time.After(scrape - time.Since(start)%scrape):
		}
	}
	return input(values), lost
}

// input returns scraped values as input of promtool.
func input(values map[string]string) (series string) {
	for name, values := range values {
		series += fmt.Sprintf("      - {series: '%s', values: \"%s\"}\n", name, strings.TrimSpace(values))
	}
	return series
}

var counters = regexp.MustCompile(`^relock_(renewal_failures|losses|acquisitions)_total\{`)

// scraped adds the values of counters to those of so many scrapes before, with the labels that Prometheus adds.
func scraped(t *testing.T, metrics http.Handler, values map[string]string, scrapes int) {
	t.Helper()
	recorder := httptest.NewRecorder()
	metrics.ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	for lines := bufio.NewScanner(recorder.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if !counters.MatchString(name) {
			continue
		}
		name += `,job="shop",instance="a"}`
		if values[name] == "" {
			values[name] = strings.Repeat("_ ", scrapes)
		}
		values[name] += value + " "
	}
}

const (
	budget     = 300 * time.Millisecond // of a caller
	unanswered = `{expr: "count(ALERTS{alertname='RelockUnanswered'})", eval_time: %v, exp_samples: [%s]}`
	neverFires = `{expr: "sum_over_time(count(ALERTS{alertname='RelockUnanswered'})[%v:5s])", eval_time: %[1]v, exp_samples: []}`
)

// What the library really reports of a service whose callers have 300 ms, scraped and evaluated every 5 s, and every 15 s.
// When Redis hangs, the alert fires within a minute. It does not when others have the locks for longer than that.
func TestUnansweredCallsAlertWithinAMinute(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	alerts, err := filepath.Abs(alertsFile)
	require.NoError(t, err)
	for _, every := range []time.Duration{scrape, 3 * scrape} {
		cases := fmt.Sprintf("rule_files: [%q]\nevaluation_interval: %v\ntests:\n", alerts, every)
		add := func(series string, expected ...string) {
			cases += fmt.Sprintf("  - interval: %v\n    input_series:\n%s    promql_expr_test:\n", every, series)
			for _, e := range expected {
				cases += "      - " + e + "\n"
			}
		}
		const begin, end = 30 * time.Second, 105 * time.Second // of the trouble, just after a scrape, and of all
		add(served(t, every, begin+time.Millisecond, end, func(r *relocktest.Redis, s *relock.Session) { r.Partition(s) }),
			fmt.Sprintf(unanswered, begin, ""), fmt.Sprintf(unanswered, begin+time.Minute, `{value: 1, labels: "{}"}`))
		add(served(t, every, begin, end, func(r *relocktest.Redis, s *relock.Session) {
			for _, lock := range orders {
				r.Hold(lock)
			}
		}), fmt.Sprintf(neverFires, end))
		file := filepath.Join(t.TempDir(), "unanswered_test.yml")
		require.NoError(t, os.WriteFile(file, []byte(cases), 0o600))
		out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, cases)
	}
}

var orders = []string{"order:1", "order:2"}

// served returns what was scraped until the end of a service that makes a call every two seconds, and for which there
// is trouble from begin on.
func served(t *testing.T, every, begin, end time.Duration, trouble func(*relocktest.Redis, *relock.Session)) (series string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		observer, metrics, err := observe()
		require.NoError(t, err)
		redis := relocktest.New(t)
		session := redis.Session(relock.WithObserver(observer))
		ctx, stop := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for _, lock := range orders {
			callers.Go(func() {
				for ctx.Err() == nil {
					ctx, cancel := context.WithTimeout(ctx, budget)
					_ = relock.Do(ctx, session.Mutex(lock), func(ctx context.Context) error {
						pause(ctx, 10*time.Millisecond)
						return nil
					})
					cancel()
					pause(ctx, 4*time.Second)
				}
			})
		}
		time.AfterFunc(begin, func() { trouble(redis, session) })
		values, start := make(map[string]string), time.Now()
		for scrapes := 0; time.Since(start) <= end; scrapes++ {
			scraped(t, metrics, values, scrapes)
			time.Sleep(every)
		}
		stop()
		callers.Wait()
		series = input(values)
	})
	return series
}
