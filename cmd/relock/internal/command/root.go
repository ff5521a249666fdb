package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/connect"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/spf13/cobra"
)

const startWithin = 15 * time.Second // to connect, and to start a session

// Main runs the program and returns its exit status.
func Main() int {
	if err := hidePassword(); err != nil {
		say(err)
		return statusSystem
	}
	out := &output{to: os.Stdout}
	err := New(out).ExecuteContext(context.Background())
	if out.err != nil { // whatever came of the command, it has not been told
		err = &exit{statusSystem, fmt.Errorf("writing the output: %w", out.err)}
	}
	return conclude(err)
}

// output is where the program prints. It remembers an error, so that printing need not mind it.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// New returns the command line, which prints to out.
func New(out io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "relock",
		Short: "Run commands under distributed locks on Redis; see and open locks",
		Long: `relock runs commands under distributed locks on Redis, shows who holds which lock,
and opens a lock that is stuck. It shares its locks with programs that use the Go
package relock, and with Java programs that use Redisson.

The server is that of --redis, else of $RELOCK_REDIS, else localhost:6379:

  redis://[user:password@]host[:port][,host[:port]…][/database][?parameters]
  rediss://…       with TLS; parameters ca, cert and key name PEM files
  unix:///path     a socket

With --prefix, or $RELOCK_PREFIX, names are those of a program that uses WithPrefix:
what its log calls order:1 is order:1 here too, and lock:order:1 in Redis.

A cluster is recognized. With master_set=NAME the hosts are Sentinels. Passwords are
best kept in $RELOCK_REDIS or in a file (password_file=FILE): a password in an argument
is hidden from the process list only after an instant.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().String("redis", "", "`URL` of Redis (default $RELOCK_REDIS, else "+connect.Default+")")
	root.PersistentFlags().String("prefix", "", "stands before the names of all locks: `P` of WithPrefix (default $RELOCK_PREFIX)")
	root.AddCommand(newRun(), newList(), newInspect(), newUnlock(), newTop(), newDoctor(), newACL(), newVersion(), newMan())
	root.SetOut(out)
	freeOfBashCompletion(root)
	return root
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown version)"
}

// address returns which Redis to use.
func address(cmd *cobra.Command) string {
	if a, _ := cmd.Flags().GetString("redis"); a != "" && os.Getenv(hidden) == "" {
		return a
	}
	for _, name := range []string{hidden, "RELOCK_REDIS"} {
		if a := os.Getenv(name); a != "" {
			return a
		}
	}
	return connect.Default
}

// prefix returns what stands before the names of locks.
func prefix(cmd *cobra.Command) string {
	if p, _ := cmd.Flags().GetString("prefix"); cmd.Flags().Changed("prefix") {
		return p
	}
	return os.Getenv("RELOCK_PREFIX")
}

// aboutKept says what of a lock Redis does not tell. State.Kept is of the asking session alone.
const aboutKept = `A lock shown as held may be kept idle by its process (WithKeep): Redis does not tell. It is
given up when someone waits: a Lock of another process, or relock run. Redisson, a TryLock
without WithKeep and relock run -n cannot recall it: they find it taken.`

// open connects and starts a session. close ends both.
func open(ctx context.Context, cmd *cobra.Command) (r *locks.Reader, close func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	client, session, err := connect.Start(ctx, address(cmd), relock.WithPrefix(prefix(cmd)))
	if err != nil {
		return nil, nil, failed(err)
	}
	return &locks.Reader{Client: client, Session: session, Prefix: prefix(cmd)}, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = session.Close(ctx) // what could not be released ends with its lease
	}, nil
}

// completeNames completes the names of locks.
func completeNames(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	const nothing = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	client, err := connect.Open(ctx, address(cmd))
	if err != nil {
		return nil, nothing
	}
	names, err := locks.All(ctx, client, prefix(cmd), locks.Exactly(typed)+"*")
	if err != nil {
		return nil, nothing
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !harmless.MatchString(name) || locks.Printable(name) != name
	}), nothing
}

// harmless are the names that are offered to shells: whoever can write to Redis chooses names, and of
// several that begin alike a shell inserts the beginning unquoted. So these have nothing that bash,
// zsh, fish or PowerShell read as anything but text, and are no flags.
var harmless = regexp.MustCompile(`^[\pL\pN_./:][\pL\pN_./:@+-]*$`)
