package interop_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
)

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
