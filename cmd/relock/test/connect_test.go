package test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// Everybody can read arguments in the process list, but not the environment. The command does not
// get a password that was in an argument.
func TestPasswordsAreNotInTheProcessList(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "secret")
	with := "redis://:secret@" + s.Addr()
	for _, args := range [][]string{{"--redis", with}, {"--redis=" + with}} {
		cmd := command("localhost:1", append(args, "run", "job", "--", "sh", "-c", "echo pid $$; env; read line")...)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		r := start(t, cmd)
		pid := r.number("pid")
		for _, p := range append(childrenOf(t, r.cmd.Process.Pid), r.cmd.Process.Pid, pid) {
			line, err := os.ReadFile("/proc/" + strconv.Itoa(p) + "/cmdline")
			require.NoError(t, err)
			require.NotContains(t, string(line), "secret", "the process list")
		}
		_ = in.Close()
		r.ends(1)
		require.NotContains(t, r.out.String()+r.err.String(), "secret", "the command's environment")
	}
}

func childrenOf(t testing.TB, pid int) (all []int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	require.NoError(t, err)
	for _, name := range tasks {
		text, _ := os.ReadFile(name)
		for f := range strings.FieldsSeq(string(text)) {
			n, _ := strconv.Atoi(f)
			all = append(all, n)
		}
	}
	return all
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
		r := start(t, command(address, "run", "job", "--", program, "list", "--json"))
		r.ends(0)
		require.Equal(t, []string{"job"}, names(t, r), address)
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
	end := waiting(t, address, "", "job")
	l := start(t, command(address, "list", "--json"))
	l.ends(0)
	require.Equal(t, []string{"job"}, names(t, l))
	find(t, examined(t, address, 0), "ok", "Sentinel names the primary")
	end()
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	address := "redis://" + cluster.Nodes()[0].Addr() + "," + cluster.Nodes()[1].Addr()
	for _, name := range []string{"a", "b", "c", "{tag}:d"} {
		r := start(t, command(address, "run", name, "--", program, "list", "--json"))
		r.ends(0)
		require.Equal(t, []string{name}, names(t, r))
		require.NotNil(t, parsed(t, r)[0].Held)
	}
	waiting := start(t, command(address, sh("-s", "job", "echo ready; sleep 1000")...))
	waiting.says("ready")
	waiting.signal(syscall.SIGTERM)
	waiting.ends(143)
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
