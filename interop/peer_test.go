package interop_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const soon = 30 * time.Second // bounds the wait for what comes quickly on an idle machine

// peer is a process that shares locks with others: one of relock, or of Redisson. It
// does what it is told to by lines of the form
//
//	<number> <thread> <command> <kind> <name> <argument>...
//
// and answers each with
//
//	<number> <start> <end> ok|error <result>
//
// where start and end are times of the host's monotonic clock. What one thread is told
// to do happens in order; threads do not wait for each other. To relock, a thread is an
// owner.
type peer struct {
	t    testing.TB
	java bool
	id   string // of the session, or of Redisson's client
	proc *redistest.Proc

	last  atomic.Int64
	calls sync.Map // of chan string by number
}

// where is what a peer connects to.
type where struct {
	mode  string // single or cluster
	addr  string
	lease time.Duration // that the watchdog renews
}

func single(s *redistest.Server, lease time.Duration) where { return where{"single", s.Addr(), lease} }

// start starts a process of relock, or of a version of Redisson.
func (at where) start(t testing.TB, version string) *peer {
	t.Helper()
	args := []string{at.mode, at.addr, strconv.FormatInt(at.lease.Milliseconds(), 10)}
	p := &peer{t: t, java: version != ""}
	if p.java {
		p.proc = redistest.Child(t, "java", append([]string{javaFor(t, version)}, args...)...)
	} else {
		p.proc = redistest.Child(t, "go", args...)
	}
	var err error
	p.id, err = p.proc.Expect("ready ", soon)
	require.NoError(t, err, "starting %v", p)
	read := kit.Async(p.read)
	t.Cleanup(func() {
		p.proc.Kill()
		<-read
	})
	return p
}

func (p *peer) String() string {
	if p.java {
		return "Java"
	}
	return "Go"
}

// read takes down the answers, until the process ends.
func (p *peer) read() error {
	for {
		line, err := p.proc.Line(time.Hour)
		if err != nil {
			return err
		}
		number, answer, _ := strings.Cut(line, " ")
		if c, ok := p.calls.LoadAndDelete(number); ok {
			c.(chan string) <- answer
		}
	}
}

// answer is what a peer has answered to a command.
type answer struct {
	start, end int64 // of the command, in ns on the host's monotonic clock
	result     string
	err        error
}

// call is a command that is under way.
type call struct {
	p    *peer
	what string
	c    chan string
}

// begin has a thread of the peer do something, and does not wait for that.
func (p *peer) begin(thread, command string, args ...any) *call {
	number := strconv.FormatInt(p.last.Add(1), 10)
	c := &call{p: p, c: make(chan string, 1)}
	p.calls.Store(number, c.c)
	words := []string{number, thread, command}
	for i, a := range args {
		word := fmt.Sprint(a)
		if i == 1 {
			word = url.QueryEscape(word)
		}
		words = append(words, word)
	}
	c.what = fmt.Sprintf("%v: %s", p, strings.Join(words[1:], " "))
	_ = p.proc.Send(strings.Join(words, " ")) // if it has ended, there will be no answer
	return c
}

// wait returns the answer, however long it takes within d; err tells why there is none.
func (c *call) wait(d time.Duration) (a answer) {
	line := ""
	select {
	case line = <-c.c:
	case <-time.After(d):
		line = fmt.Sprint("no answer within ", d)
	}
	words := strings.SplitN(line, " ", 4)
	if len(words) < 4 || words[2] != "ok" {
		return answer{err: fmt.Errorf("%s: %q", c.what, line)}
	}
	_, err := fmt.Sscan(line, &a.start, &a.end)
	require.NoError(c.p.t, err)
	a.result = words[3]
	return a
}

// must returns the answer, and stops the test if the command has failed or takes long.
func (c *call) must() answer {
	c.p.t.Helper()
	a := c.wait(soon)
	require.NoError(c.p.t, a.err)
	return a
}

// waits stops the test if the call is answered within d.
func (c *call) waits(d time.Duration) {
	c.p.t.Helper()
	select {
	case line := <-c.c:
		c.p.t.Fatalf("%s: answered %q, should have waited", c.what, line)
	case <-time.After(d):
	}
}

// do has a thread of the peer do something that must succeed, and returns the result.
func (p *peer) do(thread, command string, args ...any) string {
	p.t.Helper()
	return p.begin(thread, command, args...).must().result
}

// gets has a peer try once for a lock, and reports whether it got it.
func (p *peer) gets(thread, kind, name string) bool {
	p.t.Helper()
	return p.do(thread, "try", kind, name, 0) == "true"
}

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"go": goPeer, "java": javaPeer})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// rival returns the kind of lock that excludes one of a kind.
func rival(kind string) string { return strings.Replace(kind, "read", "write", 1) }

// redissons are the versions that the tests run with: the newest 3.x and 4.x.
var redissons = []string{"3.52.0", "4.7.0"}

// classPaths build the Java side with each version, once, and return its class path.
var classPaths = map[string]func() (string, error){}

func init() {
	for _, version := range redissons {
		classPaths[version] = sync.OnceValues(func() (string, error) { return build(version) })
	}
}

// javaFor returns the class path of the Java side, which it builds if need be. The
// test is skipped where there is no Java or no Maven, unless the environment sets
// RELOCK_REQUIRE_JAVA.
func javaFor(t testing.TB, version string) string {
	t.Helper()
	path, err := classPaths[version]()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("RELOCK_REQUIRE_JAVA") == "" {
		t.Skipf("no Redisson here: %v", err)
	}
	require.NoError(t, err)
	return path
}

var building sync.Mutex // Maven's local repository is not made for two at a time

func build(version string) (classpath string, err error) {
	building.Lock()
	defer building.Unlock()
	for _, tool := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", err
		}
	}
	target, err := filepath.Abs(filepath.Join("java", "target", version))
	if err != nil {
		return "", err
	}
	file := filepath.Join(target, "classpath")
	mvn := exec.Command("mvn", "-q", "-B", "-f", "java/pom.xml", "-Dredisson.version="+version,
		"compile", "dependency:build-classpath", "-Dmdep.outputFile="+file)
	if out, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(mvn.Args, " "), err, out)
	}
	jars, err := os.ReadFile(file)
	return filepath.Join(target, "classes") + ":" + strings.TrimSpace(string(jars)), err
}

// javaPeer is the role of a helper process that becomes the Java side. It ends with
// the test, as the process does that it was.
func javaPeer(args []string) {
	java, err := exec.LookPath("java")
	kit.ChildCheck(err)
	kit.ChildCheck(syscall.Exec(java, append([]string{
		"java", "-Xmx192m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", args[0], "relock.interop.Peer",
	}, args[1:]...), os.Environ()))
}
