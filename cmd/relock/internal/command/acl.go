package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/cmd/relock/internal/acl"
	"github.com/relock-go/relock/cmd/relock/internal/connect"
	"github.com/spf13/cobra"
)

func newACL() *cobra.Command {
	var n acl.Needs
	cmd := &cobra.Command{
		Use:   "acl [PREFIX]",
		Short: "Print the permissions that a user of Redis needs",
		Long: `acl prints a rule, ACL SETUSER, for a user of this server who may use the locks whose names
start with PREFIX (behind that of --prefix), and nothing else. It changes nothing, and the
rule leaves the user's password as it is: a new user gets one by ACL SETUSER NAME >PASSWORD.
In a cluster, and with replicas, give the rule to each server.`,
		Example: `  relock acl goods:
  relock acl goods: --user shop --replicas | redis-cli`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			names := prefix(cmd) + strings.Join(args, "")
			if names == "" {
				return usage("acl needs what the names of the locks start with: relock acl PREFIX")
			}
			for _, text := range []string{names, n.User} {
				if err := acl.Check(text); err != nil {
					return usage("%v", err)
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), startWithin)
			defer cancel()
			client, err := connect.Open(ctx, address(cmd))
			if err != nil {
				return failed(err)
			}
			defer client.Close()
			s, err := serverOf(ctx, client)
			if err != nil {
				return failed(fmt.Errorf("asking the server for its version (INFO): %w", err))
			}
			fmt.Fprintln(cmd.OutOrStdout(), strings.Join(acl.Rule(s, n, names), " "))
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&n.User, "user", "relock", "`NAME` of the user")
	fs.BoolVar(&n.Replicas, "replicas", false, "the sessions use WithReplicas")
	fs.BoolVar(&n.List, "list", false, "the user also runs relock list and relock top")
	fs.BoolVar(&n.Tags, "tags", false, "names have a hash tag behind PREFIX, such as goods:{shop}:1")
	return cmd
}

// serverOf asks a server what its rules depend on.
func serverOf(ctx context.Context, c rueidis.Client) (acl.Server, error) {
	text, err := c.Do(ctx, c.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return acl.Server{}, err
	}
	s := acl.Server{Cluster: c.Mode() == rueidis.ClientModeCluster}
	major, minor := 0, 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "redis_version":
			_, _ = fmt.Sscanf(value, "%d.%d", &major, &minor)
		case "valkey_version":
			s.Shards = true
		}
	}
	s.Sharded, s.SetInfo = major >= 7, s.Shards || major > 7 || major == 7 && minor >= 2
	s.Shards = s.Shards || major >= 8
	return s, nil
}
