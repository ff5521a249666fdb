package command

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/relock-go/relock/cmd/relock/internal/connect"
	"github.com/relock-go/relock/cmd/relock/internal/top"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newTop() *cobra.Command {
	interval := duration{Duration: time.Second}
	var steps, reads int
	cmd := &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Watch the locks, the hottest first",
		Long: `top shows the locks that are held in a live table: name, kind, holder, how long already,
time to live, and waiters, those with most waiters first. Keys sort, filter, inspect, and
open a lock after a question; ? lists them. PATTERN is as for list.

It asks Redis for at most --steps steps of a scan a second, of 500 keys each, and for
--reads locks; what does not fit waits for its turn.

` + aboutKept,
		Example: "  relock top 'goods:*'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())):
				return usage("top needs a terminal; use list in scripts")
			case interval.Duration < 100*time.Millisecond:
				return usage("--interval must be at least 100ms")
			case steps < 1 || reads < 1:
				return usage("--steps and --reads must be at least 1")
			}
			r, done, err := open(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			defer done()
			server, _ := connect.Mask(address(cmd))
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			err = top.Run(ctx, r, top.Options{
				Pattern: strings.Join(args, ""), Interval: interval.Duration, Steps: steps, Reads: reads, Server: server,
			})
			if err != nil {
				return &exit{statusSystem, err}
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.Var(&interval, "interval", "time `D` between refreshes")
	fs.IntVar(&steps, "steps", 20, "steps of a scan, at most `N` a second")
	fs.IntVar(&reads, "reads", 500, "locks that are read, at most `N` a second")
	return cmd
}
