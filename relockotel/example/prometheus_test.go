package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// tool returns the path of a program of Prometheus, and skips the test if there is none.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("RELOCK_REQUIRE_PROMETHEUS") != "":
		t.Fatalf("%s is not in PATH; the Debian package prometheus has it", name)
	default:
		t.Skipf("%s is not in PATH; the Debian package prometheus has it", name)
	}
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
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(t, "a Prometheus server that is ready", func() bool {
		response, err := client.Get(server.url + "/-/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return server
}
