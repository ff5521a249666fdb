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
	"time"

	"github.com/stretchr/testify/require"
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
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs: [{job_name: example, metrics_path: /%s, static_configs: [{targets: [%q]}]}]
`, absolute(t, alertsFile), path, host), 0o600))
	for range 5 { // until a port is free
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := listener.Addr().String()
		require.NoError(t, listener.Close())
		cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
			"--web.listen-address="+addr, "--log.level=error")
		cmd.Stderr = t.Output()
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait()
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-ended
		})
		server := &prometheusServer{"http://" + addr}
		if server.ready(ended) {
			return server
		}
	}
	t.Fatal("no Prometheus server could be started")
	return nil
}

// ready waits until p is, and returns false if its process has ended.
func (p *prometheusServer) ready(ended <-chan struct{}) bool {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		if response, err := client.Get(p.url + "/-/ready"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-ended:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}
