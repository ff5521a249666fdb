package command

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man",
		Short: "Print the manual page",
		Long:  "man prints the manual page of relock, or with --dir writes one for each subcommand as well.",
		Example: `  relock man | man -l -
  relock man --dir /usr/local/share/man/man1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			header := &doc.GenManHeader{Title: "RELOCK", Section: "1", Source: "relock " + version(), Manual: "relock"}
			cmd.Root().DisableAutoGenTag = true
			var err error
			if dir != "" {
				if err = os.MkdirAll(dir, 0o755); err == nil {
					err = doc.GenManTree(cmd.Root(), header, dir)
				}
			} else {
				err = doc.GenMan(cmd.Root(), header, cmd.OutOrStdout())
			}
			if err != nil {
				return &exit{statusSystem, fmt.Errorf("writing the manual: %w", err)}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write one page for each subcommand to this `directory`")
	return cmd
}
