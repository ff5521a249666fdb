package test

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// Everybody can read arguments in the process list, but not the environment. The command does not
// get a password that was in an argument.
func TestPasswordsAreNotInTheProcessList(t *testing.T) {
	s, password := server(t), rand.Text()
	admin(t, s, "ACL", "SETUSER", "user", "on", ">"+password, "~*", "&*", "+@all")
	with := "redis://user:" + password + "@" + s.Addr()
	for _, args := range [][]string{{"--redis", with}, {"--redis=" + with}} {
		r, end := waiting(t, command("localhost:1", append(args, sh("", "job", "echo pid $$; env; "+waits)...)...))
		pid := r.number("pid")
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		require.Contains(t, lines, fmt.Sprintf("/proc/%d/cmdline", pid))
		for _, file := range lines {
			line, _ := os.ReadFile(file)
			require.NotContains(t, string(line), password, "the process list")
		}
		end()
		require.NotContains(t, r.out.String()+r.err.String(), password, "the command's environment")
	}
}

func TestSocketUserDatabaseAndPasswordFile(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	s := redistest.Start(t, "--unixsocket", socket)
	start(t, command("unix://"+socket, "run", "job", "--", "true")).ends(0)
	admin(t, s, "ACL", "SETUSER", "operator", "on", ">pass@word", "~*", "&*", "+@all")
	admin(t, s, "ACL", "SETUSER", "default", "+@all", "-eval")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("pass@word\n"), 0o600))
	start(t, command(s.Addr(), "list")).ends(69)
	for _, address := range []string{"redis://operator:pass%40word@" + s.Addr() + "/3", "redis://operator@" + s.Addr() + "?db=3&password_file=" + file} {
		text := start(t, command(address, "run", "job", "--", program, "list", "--json")).ends(0)
		require.Equal(t, "job", parsed(t, text)[0].Name, address)
		start(t, command("redis://operator:pass%40word@"+s.Addr()+"/4", "run", "-n", "job", "--", "true")).ends(0)
	}
}

// A failover takes the locks along; the command goes on with the new primary.
func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	var hosts []string
	for _, n := range s.Sentinels() {
		hosts = append(hosts, n.Addr())
	}
	address := "redis://" + strings.Join(hosts, ",") + "?master_set=relock"
	_, end := waiting(t, command(address, sh("", "job", waits)...))
	require.Equal(t, "job", parsed(t, start(t, command(address, "list", "--json")).ends(0))[0].Name)
	all := examined(t, address, 0)
	find(t, all, "ok", "Sentinel names the primary")
	find(t, all, "ok", "Sentinel.TopologyRefreshInterval 5s")
	end()
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	address := "redis://" + cluster.Nodes()[0].Addr() + "," + cluster.Nodes()[1].Addr()
	for _, name := range []string{"a", "b", "c", "{tag}:d"} {
		all := parsed(t, start(t, command(address, "run", name, "--", program, "list", "--json")).ends(0))
		require.Len(t, all, 1)
		require.Equal(t, name, all[0].Name)
		require.NotNil(t, all[0].Held)
	}
	r, _ := waiting(t, command(address, sh("-s", "job", waits)...))
	r.signal(syscall.SIGTERM)
	r.ends(143)
}

func TestTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	ca := redistest.NewAuthority(t)
	_, address := redistest.StartTLS(t, ca)
	cert, key := ca.Issue()
	own := "cert=" + cert + "&key=" + key
	for parameters, status := range map[string]int{
		"?ca=" + ca.File + "&" + own: 0,
		"?skip_verify&" + own:        0,
		"?" + own:                    69, // nobody vouches for the server
		"?ca=" + ca.File + "&" + own + "&server_name=elsewhere": 69,
		"?ca=" + ca.File: 69,
	} {
		start(t, command("rediss://"+address+parameters, "run", "job", "--", "true")).ends(status)
	}
	start(t, command("redis://"+address, "run", "job", "--", "true")).ends(69)
}

// What a user presents may be replaced at any time: a job goes on when its connections break afterwards.
func TestRotatedPasswordsAndCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	old, next := redistest.NewAuthority(t), redistest.NewAuthority(t)
	s, address := redistest.StartTLS(t, old)
	admin(t, s, "ACL", "SETUSER", "operator", "on", ">first", "~*", "&*", "+@all")
	dir := t.TempDir()
	presented := func(password string, by *redistest.Authority) {
		cert, key := by.Issue()
		for name, from := range map[string]string{"cert": cert, "key": key, "ca": by.File} {
			text, err := os.ReadFile(from)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte(password+"\n"), 0o600))
	}
	presented("first", old)
	url := fmt.Sprintf("rediss://operator@%s?password_file=%s&ca=%s&cert=%s&key=%s", address,
		filepath.Join(dir, "password"), filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key"))
	_, end := waiting(t, command(url, sh("--lease 3s", "job", waits)...))

	admin(t, s, "ACL", "SETUSER", "operator", "resetpass", ">second")
	_, port, _ := net.SplitHostPort(address)
	admin(t, s, append([]string{"CONFIG", "SET"}, next.Settings(port)...)...)
	presented("second", next)
	admin(t, s, "CLIENT", "KILL", "TYPE", "normal")
	admin(t, s, "CLIENT", "KILL", "TYPE", "pubsub")
	renewed(t, s, "job", 3*time.Second)
	end()
}

// renewed waits until a lock has been renewed twice.
func renewed(t testing.TB, s *redistest.Server, name string, lease time.Duration) {
	t.Helper()
	some := lease.Milliseconds() / 6 * 5
	for range 2 {
		redistest.Eventually(t, soon, "less of the lease of "+name, func() bool { return admin(t, s, "PTTL", name).(int64) < some })
		redistest.Eventually(t, soon, "a renewal of "+name, func() bool { return admin(t, s, "PTTL", name).(int64) > some })
	}
}

// A balancer that has lost its table drops what comes on the connections that exist, and new ones work.
func TestSilentConnectionsAreReplaced(t *testing.T) {
	s := server(t)
	balancer := forward(t, s.Addr())
	_, end := waiting(t, command(balancer.address(), sh("--lease 10s --grace 1s", "job", waits)...))
	balancer.forget()
	renewed(t, s, "job", 10*time.Second)
	end()
}

// Sentinel has named another primary, and the client has not heard of it: the old one lives on as a replica, so that
// no connection breaks.
func TestMissedFailoverIsNoticed(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	sentinel := redistest.StartLoneSentinel(t, "sentinel monitor relock "+host+" "+port+" 1")
	redistest.Eventually(t, soon, "a sentinel that knows the replica", func() bool {
		known, err := sentinel.Do("SENTINEL", "REPLICAS", "relock")
		return err == nil && len(known.([]any)) == 1
	})
	deaf := forward(t, sentinel.Addr())
	_, end := waiting(t, command("redis://"+deaf.address()+"?master_set=relock", sh("", "job", waits)...))
	locked(t, replicas[0], "job", true)
	deaf.drop("message\r\n$14\r\n+switch-master")
	redistest.Eventually(t, soon, "a failover", func() bool {
		_, err := sentinel.Do("SENTINEL", "FAILOVER", "relock")
		return err == nil || replicas[0].Info("replication")["role"] == "master"
	})
	redistest.Eventually(t, soon, "a new primary", func() bool { return replicas[0].Info("replication")["role"] == "master" })
	renewed(t, replicas[0], "job", 30*time.Second)
	end()
}
