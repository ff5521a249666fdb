package test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	find(t, examined(t, address, 0), "ok", "Sentinel names the primary")
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
