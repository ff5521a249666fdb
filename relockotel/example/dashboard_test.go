package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	dashboardFile = "../grafana/relock.json"
	alertsFile    = "../grafana/alerts.yml"
)

// dashboard is what these tests read of it.
type dashboard struct {
	Panels []struct {
		Title      string
		Datasource struct{ UID string }
		Targets    []struct {
			Datasource struct{ UID string }
			Expr       string
		}
	}
	Templating struct {
		List []struct{ Definition string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// exposed returns the labels of each metric that the observer can expose.
func exposed(t *testing.T) map[string]map[string]bool {
	t.Helper()
	o, handler, err := observe()
	require.NoError(t, err)
	o.Acquired(t.Context(), relock.AcquireEvent{Name: "a", Held: true})
	o.Released(t.Context(), relock.ReleaseEvent{Name: "a", Held: time.Second})
	o.Renewed(relock.RenewEvent{Holds: 1, Duration: time.Millisecond, Err: errors.New("no")})
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(recorder.Body)
	require.NoError(t, err)
	metrics := make(map[string]map[string]bool)
	for name, family := range families {
		labels := map[string]bool{"job": true, "instance": true} // of the target
		for _, l := range family.Metric[0].Label {
			labels[l.GetName()] = true
		}
		if family.Metric[0].Histogram != nil {
			name += "_bucket"
			labels["le"] = true
		}
		if strings.HasPrefix(name, "relock_") {
			metrics[name] = labels
		}
	}
	return metrics
}

// The dashboard and the alerts ask for metrics and labels that are there, and the dashboard shows all metrics.
func TestMetricsOfDashboardAndAlertsExist(t *testing.T) {
	metrics, d := exposed(t), readDashboard(t)
	var exprs []string
	for _, p := range d.Panels {
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		for _, target := range p.Targets {
			require.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
			exprs = append(exprs, target.Expr)
		}
	}
	for name := range metrics {
		require.Contains(t, strings.Join(exprs, "\n"), name)
	}
	for _, v := range d.Templating.List {
		exprs = append(exprs, v.Definition)
	}
	alerts, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	alertExprs := regexp.MustCompile(`(?s)expr: (.*?)\n        (?:for|labels):`).FindAllStringSubmatch(string(alerts), -1)
	require.Len(t, alertExprs, strings.Count(string(alerts), "alert:"))
	for _, e := range alertExprs {
		exprs = append(exprs, e[1])
	}
	for _, expr := range exprs {
		labels := make(map[string]bool) // of all its metrics
		for _, name := range regexp.MustCompile(`relock_\w+`).FindAllString(expr, -1) {
			require.Contains(t, metrics, name, expr)
			maps.Copy(labels, metrics[name])
		}
		asked := regexp.MustCompile(`(?:(\w+) *(?:=~|!~|!=|=) *"|by *\(([^)]*)\))`)
		for _, found := range asked.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(found[1]+found[2], ",") {
				require.Contains(t, labels, strings.TrimSpace(label), expr)
			}
		}
	}
}

// The whole of it on a Prometheus server that scrapes the example: each query of each panel
// returns numbers, and losses and failed renewals are seen.
func TestDashboardOnPrometheus(t *testing.T) {
	t.Parallel()
	metrics, stop := start(t)
	server := startPrometheus(t, metrics)
	interpolate := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$kind", ".*")
	positive := map[string]bool{"Losses by cause": true, "Failed renewals": true, "Calls that wait": true}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			redistest.Eventually(t, patience, p.Title+": "+target.Expr, func() bool {
				all, most := server.query(t, interpolate.Replace(target.Expr))
				return all > 0 && (most > 0 || !positive[p.Title])
			})
		}
	}
	for variable, want := range map[string]string{"job": `["example"]`, "kind": `["fair","group","mutex","read","write"]`} {
		answer := get(t, server.url+"/api/v1/label/"+variable+"/values?match[]=relock_acquisitions_total")
		require.Contains(t, answer, `"data":`+want)
	}
	stop()
}

// query returns how many results a query has, and the largest. One that is no number is none.
func (p *prometheusServer) query(t *testing.T, q string) (all int, most float64) {
	t.Helper()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	text := get(t, p.url+"/api/v1/query?query="+url.QueryEscape(q))
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	most = math.Inf(-1)
	for _, r := range answer.Data.Result {
		value, err := strconv.ParseFloat(r.Value[1].(string), 64)
		require.NoError(t, err)
		if !math.IsNaN(value) {
			all, most = all+1, max(most, value)
		}
	}
	return all, most
}

func TestAlerts(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = "../grafana"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// tool returns the path of a program of Prometheus, and skips the test if there is none.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("RELOCK_REQUIRE_PROMETHEUS") == "" {
		t.Skipf("%s is not in PATH; the Debian package prometheus has it", name)
	}
	require.NoError(t, err)
	return path
}

type prometheusServer struct{ url string }

// startPrometheus starts a server that scrapes a URL as the job example.
func startPrometheus(t *testing.T, target string) *prometheusServer {
	t.Helper()
	program, dir := tool(t, "prometheus"), t.TempDir()
	host, path, _ := strings.Cut(strings.TrimPrefix(target, "http://"), "/")
	alerts, err := filepath.Abs(alertsFile)
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs: [{job_name: example, metrics_path: /%s, static_configs: [{targets: [%q]}]}]
`, alerts, path, host), 0o600))
	addr := net.JoinHostPort("127.0.0.1", redistest.FreePort(t))
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=error")
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	server := &prometheusServer{"http://" + addr}
	redistest.Eventually(t, patience, "a Prometheus server that is ready", func() bool {
		_, err := fetch(server.url + "/-/ready")
		return err == nil
	})
	return server
}
