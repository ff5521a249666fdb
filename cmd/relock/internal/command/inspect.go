package command

import (
	"fmt"
	"io"
	"os"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/spf13/cobra"
)

func newInspect() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "inspect NAME…",
		Short:             "Show all that is known of some locks",
		Long:              "inspect shows who holds a lock, for how long already, and how many wait for it.",
		Example:           "  relock inspect goods:1000:1",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx := cmd.Context()
			r, done, err := open(ctx, cmd)
			if err != nil {
				return err
			}
			defer done()
			var all []locks.Lock
			for _, name := range names {
				l, err := r.Read(ctx, name)
				if err != nil {
					return failed(err)
				}
				all = append(all, l)
			}
			if asJSON {
				return printJSON(os.Stdout, all)
			}
			for _, l := range all {
				describe(os.Stdout, l)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// describe prints a lock in words.
func describe(w io.Writer, l locks.Lock) {
	name := locks.Printable(l.Name)
	if !l.Locked() {
		fmt.Fprintf(w, "%s: not locked%s\n", name, waiters(l))
		return
	}
	how := "held"
	if l.Mode == relock.Shared {
		how = fmt.Sprintf("read by %d", len(l.Holders))
	}
	fmt.Fprintf(w, "%s: %s (%s), for %s, expires in %s unless renewed%s\n",
		name, how, l.Kind, locks.HeldFor(l), locks.TimeToLive(l), waiters(l))
	for _, h := range l.Holders {
		fmt.Fprintf(w, "  by %s (%s)\n", locks.Who(h), h.ID)
	}
}

func waiters(l locks.Lock) string {
	switch l.Waiters {
	case 0:
		return ""
	case 1:
		return ", 1 waits"
	}
	return fmt.Sprintf(", %d wait", l.Waiters)
}
