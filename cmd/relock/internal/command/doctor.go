package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/relock-go/relock/cmd/relock/internal/doctor"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/spf13/cobra"
)

func newDoctor() *cobra.Command {
	var asJSON, verbose bool
	cmd := &cobra.Command{
		Use:   "doctor [PREFIX]",
		Short: "Say what is wrong with Redis, or missing",
		Long: `doctor connects as a program that uses relock would, and says whether locks work there: the
version, the permissions command by command, eviction, replicas, the cluster, pub/sub,
the clock, and the round trip. It tries them with a lock that nobody else uses,
PREFIXrelock-doctor:…, behind the prefix of --prefix. If the user may only use names that
start with goods:, say so: relock doctor goods:

INFO commandstats counts the commands inside scripts too: a Lock and Unlock of a free Mutex
sends 2 commands (EVALSHA), and shows as 10 to 11.

Exit status: 0 if all is well, 1 if there is a warning, 2 if locks do not work.`,
		Example: "  relock doctor goods:",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, found := cmd.OutOrStdout(), []doctor.Finding{}
			e := doctor.Exam{Address: address(cmd), Prefix: prefix(cmd) + strings.Join(args, ""), Found: func(f doctor.Finding) {
				if asJSON {
					found = append(found, f)
				} else if verbose || !f.Detail {
					printFinding(out, f)
				}
			}}
			worst := e.Run(cmd.Context())
			if asJSON {
				printAny(out, found)
			}
			if status := max(0, int(worst-doctor.Note)); status > 0 {
				return &exit{status: status}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with every permission")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "name every permission")
	return cmd
}

func printFinding(w io.Writer, f doctor.Finding) {
	fmt.Fprintf(w, "%-8s %-15s %s\n", f.Severity, f.Check, locks.Escaped(f.Text))
	if f.Advice != "" {
		fmt.Fprintf(w, "%24s %s %s\n", "", locks.Escaped("→"), locks.Escaped(f.Advice))
	}
}
