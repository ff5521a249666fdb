package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newUnlock() *cobra.Command {
	var yes, asJSON bool
	var holder string
	cmd := &cobra.Command{
		Use:   "unlock NAME",
		Short: "Open a lock by force",
		Long: `unlock opens a lock, after a question that shows who holds it. If somebody else holds it
when the answer comes, unlock says so and does nothing. With --yes it asks nothing, and
opens the lock whoever holds it. Of a semaphore it ends all permits, or with --holder one
of them; "relock inspect" shows the ids of its holders. A holder that uses relock is told at once and should
stop; "relock run" ends its command. A holder that is paused learns of it only later:
unlock does not stop what it does.

Exit status: 0 if the lock was opened, 1 if it was not locked, had changed hands, or the
answer was no, 65 if the key holds something that is no lock, and 64 and 69 as always.`,
		Example:           "  relock unlock --yes goods:1000:1",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return unlock(cmd, args[0], holder, yes, asJSON)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&holder, "holder", "", "only if the holder with that `ID` has the lock; of a semaphore only its permit")
	return cmd
}

func unlock(cmd *cobra.Command, name, holder string, yes, asJSON bool) error {
	if !yes && !term.IsTerminal(int(os.Stdin.Fd())) {
		return usage("unlock asks first, but standard input is no terminal; give --yes")
	}
	ctx := cmd.Context()
	r, done, err := open(ctx, cmd)
	if err != nil {
		return err
	}
	defer done()
	l, err := r.Read(ctx, name)
	if err != nil {
		return failed(err)
	}
	if holder != "" {
		l.Holders = slices.DeleteFunc(l.Holders, func(h relock.Holder) bool { return h.ID != holder })
	}
	opened := false
	switch {
	case !l.Locked():
	case len(l.Holders) == 0 && holder != "":
		return &exit{statusNothing, fmt.Errorf("%s is not held by %s", locks.Printable(name), locks.Printable(holder))}
	case yes && holder == "":
		opened, err = r.Session.ForceUnlock(ctx, name)
	default:
		if !yes {
			describe(os.Stderr, l)
			if !confirm("Open it?") {
				return &exit{statusNothing, fmt.Errorf("%s was left as it is", locks.Printable(name))}
			}
		}
		opened, err = r.Open(ctx, l)
	}
	if errors.Is(err, locks.ErrChanged) {
		return &exit{statusNothing, fmt.Errorf("%s has changed hands and was left as it is", locks.Printable(name))}
	}
	if err != nil {
		return failed(err)
	}
	return report(cmd.OutOrStdout(), name, opened, asJSON)
}

// report says whether the lock was opened.
func report(w io.Writer, name string, opened, asJSON bool) error {
	if asJSON {
		printAny(w, map[string]any{"name": name, "unlocked": opened})
	}
	switch {
	case opened && !asJSON:
		fmt.Fprintf(w, "%s: opened\n", locks.Printable(name))
	case !opened && !asJSON:
		return &exit{statusNothing, fmt.Errorf("%s is not locked", locks.Printable(name))}
	case !opened:
		return &exit{status: statusNothing}
	}
	return nil
}

// confirm asks the user, who must say yes.
func confirm(question string) bool {
	fmt.Fprintf(os.Stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}
