// Command release proves that what a release publishes can be used: it makes a module proxy of the modules of this
// tree, as the tags of the release would, then installs the command from it, and builds a program that imports the
// others. "make release-check" runs it, in the root of the tree.
//
// The version is the one that the modules require of the library. Other modules come from the module cache, or else
// from where GOPROXY says.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	library = "github.com/relock-go/relock"
	command = library + "/cmd/relock"
)

// nested are the other modules that a release publishes, by their directories.
var nested = []string{
	"adapters/asynq", "adapters/certmagic", "adapters/gocron", "adapters/tusd",
	"cmd/relock", "goredis", "relockotel",
}

// program is what a user could write.
const program = `package main

import (
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	relockasynq "github.com/relock-go/relock/adapters/asynq"
	relockcertmagic "github.com/relock-go/relock/adapters/certmagic"
	relockgocron "github.com/relock-go/relock/adapters/gocron"
	relocktusd "github.com/relock-go/relock/adapters/tusd"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/relockotel"
)

// adapters are made of a session, which there is none of here.
var adapters = []any{relockasynq.TryDo, relockcertmagic.NewLocker, relockgocron.NewLocker, relocktusd.NewLocker}

func main() {
	observer, err := relockotel.NewObserver()
	if err == nil {
		_, err = goredis.NewClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}}) // nobody is there
	}
	fmt.Println("go-redis:", err, relock.WithObserver(observer) != nil, len(adapters))
	if err == nil {
		os.Exit(1)
	}
}
`

func main() {
	tmp, err := os.MkdirTemp("", "release")
	if err == nil {
		err = check(tmp)
		_ = os.RemoveAll(tmp)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func check(tmp string) error {
	version, err := required()
	if err != nil {
		return err
	}
	proxy := filepath.Join(tmp, "proxy")
	for _, dir := range append([]string{"."}, nested...) {
		if err := publish(proxy, dir, version); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	u, err := newUser(tmp, proxy)
	if err != nil {
		return err
	}

	// What the command needs is fetched by a build, which asks the proxies for these modules alone. "go install" asks
	// for modules of each prefix of the path too, such as github.com/relock-go, so it may use what is here already.
	if err := u.build("fetch", []string{"cmd/relock"}, "", command+" "+version); err != nil {
		return err
	}
	offline := append(slices.Clip(u.env), "GOPROXY="+u.here, "GOSUMDB=off") // the build has checked the sums
	if _, err := run(tmp, offline, "go", "install", command+"@"+version); err != nil {
		return err
	}
	out, err := run(tmp, u.env, filepath.Join(tmp, "bin", "relock"), "--version")
	if err != nil {
		return err
	}
	if !strings.Contains(out, version) {
		return fmt.Errorf("relock --version prints %q, want %s", out, version)
	}
	fmt.Printf("installed: %s", out)

	imported := slices.DeleteFunc(slices.Clone(nested), func(dir string) bool { return dir == "cmd/relock" })
	require := []string{library + " " + version}
	for _, dir := range imported {
		require = append(require, library+"/"+dir+" "+version)
	}
	if err := u.build("program", imported, program, require...); err != nil {
		return err
	}
	out, err = run(tmp, u.env, filepath.Join(tmp, "program", "program"))
	fmt.Printf("built a program: %s", out)
	return err
}

// required returns the version of the library that all nested modules require. CHANGELOG.md must have it.
func required() (string, error) {
	version := ""
	for _, dir := range nested {
		out, err := run(dir, nil, "go", "mod", "edit", "-json")
		if err != nil {
			return "", err
		}
		var mod struct {
			Require []struct{ Path, Version string }
		}
		if err := json.Unmarshal([]byte(out), &mod); err != nil {
			return "", err
		}
		for _, r := range mod.Require {
			if r.Path != library {
				continue
			}
			if version != "" && version != r.Version {
				return "", fmt.Errorf("%s requires the library at %s, another module at %s", dir, r.Version, version)
			}
			version = r.Version
		}
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(changes), "\n## ["+strings.TrimPrefix(version, "v")+"] - ") {
		return "", fmt.Errorf("CHANGELOG.md has no section for %s, which the modules require", version)
	}
	return version, nil
}

// A user has a module cache and an environment of his own, and so nothing of this tree.
type user struct {
	dir  string
	here string // the proxies that need no network
	env  []string
}

func newUser(tmp, proxy string) (*user, error) {
	out, err := run(".", nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	values := strings.Split(strings.TrimSpace(out), "\n")
	if len(values) != 2 {
		return nil, fmt.Errorf("go env prints %q", out)
	}
	own := filepath.Join(tmp, "mod")
	u := &user{dir: tmp}
	u.here = fmt.Sprintf("file://%s,file://%s/cache/download,file://%s/cache/download", proxy, own, values[0])
	u.env = append(os.Environ(), "GOPROXY="+u.here+","+values[1], "GOMODCACHE="+own, "GOBIN="+filepath.Join(tmp, "bin"),
		"GOFLAGS=-mod=mod -modcacherw", "GOWORK=off", "GOPRIVATE=", "GONOPROXY=none", "GONOSUMDB="+library)
	return u, nil
}

// build builds source in a new module with these requirements, or the packages that are required if there is no
// source. Sums of other modules are those of modules of this tree, which saves asking for them.
func (u *user) build(name string, sums []string, source string, require ...string) error {
	dir := filepath.Join(u.dir, name)
	mod := "module example.com/" + name + "\n\ngo 1.26.0\n\nrequire (\n\t" + strings.Join(require, "\n\t") + "\n)\n"
	var known strings.Builder
	for _, sum := range sums {
		text, err := os.ReadFile(filepath.Join(sum, "go.sum"))
		if err != nil {
			return err
		}
		known.WriteString(string(text))
	}
	if err := write(filepath.Join(dir, "go.mod"), mod); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "go.sum"), known.String()); err != nil {
		return err
	}
	what := "."
	if source == "" {
		what, _, _ = strings.Cut(require[0], " ")
	} else if err := write(filepath.Join(dir, "main.go"), source); err != nil {
		return err
	}
	_, err := run(dir, u.env, "go", "build", "-o", name, what)
	return err
}

// run returns what a program prints to standard output. Its error has what it prints elsewhere.
func run(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errors.String())
	}
	return string(out), err
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
