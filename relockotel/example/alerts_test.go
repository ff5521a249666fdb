package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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
		for name, value := range scraped(t, metrics) {
			if values[name] == "" {
				values[name] = strings.Repeat("_ ", scrapes)
			}
			values[name] += value + " "
		}
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
	for name, values := range values {
		series += fmt.Sprintf("      - {series: '%s', values: \"%s\"}\n", name, strings.TrimSpace(values))
	}
	return series, lost
}

// scraped returns the values of failed renewals and losses, with the labels that Prometheus adds.
func scraped(t *testing.T, metrics http.Handler) map[string]string {
	t.Helper()
	recorder := httptest.NewRecorder()
	metrics.ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	values := make(map[string]string)
	for lines := bufio.NewScanner(recorder.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(name, "relock_renewal_failures_total{") || strings.HasPrefix(name, "relock_losses_total{") {
			values[name+`,job="shop",instance="a"}`] = value
		}
	}
	return values
}
