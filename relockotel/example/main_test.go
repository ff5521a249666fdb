package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
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
	url, stop := start(t, "-redis", "redis://"+redis.Addr(), "-workers", "2")
	for _, kind := range []string{"mutex", "fair", "read", "write", "group"} {
		held := regexp.MustCompile(`relock_acquisitions_total\{kind="` + kind + `".*outcome="held".* [1-9]`)
		redistest.Eventually(t, patience, "held by "+kind, func() bool { return held.MatchString(get(t, url)) })
	}
	stop()
	for _, key := range redis.Keys() {
		require.False(t, strings.HasPrefix(key, prefix), "left in Redis: %s", key)
	}
}

const (
	dashboardFile = "../grafana/relock.json"
	alertsFile    = "../grafana/alerts.yml"
)

// dashboard is what these tests read of it.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// The whole of it on a Prometheus server that scrapes the example: each query of each panel
// returns numbers, losses and failed renewals are seen, and there is each metric of the alerts.
func TestDashboardOnPrometheus(t *testing.T) {
	t.Parallel()
	metrics, stop := start(t)
	server := startPrometheus(t, metrics)
	asked := make(map[string]bool) // by whether it must be more than 0
	interpolate := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$kind", ".*")
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			positive := []string{"Losses by cause", "Failed renewals", "Calls that wait"}
			asked[interpolate.Replace(target.Expr)] = slices.Contains(positive, p.Title)
		}
	}
	text, err = os.ReadFile(alertsFile)
	require.NoError(t, err)
	for _, name := range regexp.MustCompile(`relock_\w+`).FindAllString(string(text), -1) {
		asked[name] = false
	}
	for query, positive := range asked {
		redistest.Eventually(t, patience, query, func() bool {
			all, most := server.query(t, query)
			return all > 0 && (most > 0 || !positive)
		})
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
