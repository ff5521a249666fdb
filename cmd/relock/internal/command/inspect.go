package command

import (
	"fmt"
	"io"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/spf13/cobra"
)

func newInspect() *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "inspect NAME…",
		Short: "Show all that is known of some locks",
		Long: `inspect shows who holds a lock, for how long already, and how many wait for it. With -q
it prints nothing, and its exit status says whether the locks are held.

` + aboutKept + `

Exit status: 0, with -q if all of them are held; 1 with -q if one is free; 65 if a key holds
something that is no lock, and 64 and 69 as always.`,
		Example: `  relock inspect goods:1000:1
  if relock inspect -q nightly-report; then echo "the report is running"; fi`,
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
			free := false
			for _, name := range names {
				l, err := r.Read(ctx, name)
				if err != nil {
					return failed(err)
				}
				all = append(all, l)
				free = free || !l.Locked()
			}
			switch {
			case quiet && free:
				return &exit{status: statusFree}
			case quiet:
				return nil
			case asJSON:
				printJSON(cmd.OutOrStdout(), all)
				return nil
			}
			for _, l := range all {
				describe(cmd.OutOrStdout(), l)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing; exit with 0 if all are held, 1 if one is free")
	cmd.MarkFlagsMutuallyExclusive("json", "quiet")
	return cmd
}

// describe prints a lock in words, a few to the line, so that a narrow terminal breaks none of them.
func describe(w io.Writer, l locks.Lock) {
	name := locks.Printable(l.Name)
	if !l.Locked() {
		fmt.Fprintf(w, "%s: not locked%s\n", name, waiters(l))
		return
	}
	how := l.Kind()
	switch {
	case l.Permits > 0:
		how += fmt.Sprintf(", %d of %d permits", len(l.Holders), l.Permits)
	case l.Mode == relock.Shared:
		how += fmt.Sprintf(" by %d", len(l.Holders))
	}
	held := ""
	if l.Held > 0 {
		held = ", for " + locks.HeldFor(l)
	}
	fmt.Fprintf(w, "%s: held (%s)%s%s\n", name, how, held, waiters(l))
	fmt.Fprintf(w, "  expires in %s unless renewed\n", locks.TimeToLive(l))
	if l.Token > 0 {
		fmt.Fprintf(w, "  token %d\n", l.Token)
	}
	if l.Note != "" {
		fmt.Fprintf(w, "  note: %s\n", locks.Printable(l.Note))
	}
	for _, h := range l.Holders {
		slot := ""
		if l.Permits > 0 {
			slot = fmt.Sprintf(", slot %d", h.Slot)
		}
		fmt.Fprintf(w, "  by %s%s\n", locks.Who(h), slot)
		if h.Label != "" {
			fmt.Fprintf(w, "    %s\n", locks.Printable(h.ID))
		}
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
