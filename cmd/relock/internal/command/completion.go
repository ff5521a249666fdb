package command

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// freeOfBashCompletion makes cobra's script for bash work where the package bash-completion is not installed.
func freeOfBashCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion", "bash"})
	if err != nil {
		panic(err)
	}
	cmd.Long = `bash prints a script that completes the command line of relock in bash. It needs no other package.

  source <(relock completion bash)`
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var script bytes.Buffer
		if err := root.GenBashCompletionV2(&script, true); err != nil {
			return err
		}
		fmt.Fprint(cmd.OutOrStdout(), strings.Replace(script.String(), theirWords, ownWords, 1))
		return nil
	}
}

// theirWords is how cobra's script asks bash-completion for the words of the command line. ownWords splits the line
// up to the cursor itself: bash also splits at colons, which names of locks have.
const (
	theirWords = `_get_comp_words_by_ref "$@" cur prev words cword`
	ownWords   = `local noglob line=${COMP_LINE:0:COMP_POINT}
    [[ $- == *f* ]] && noglob=1
    set -f
    words=($line)
    [[ $noglob ]] || set +f
    [[ $line == *[[:space:]] ]] && words+=("")
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword > 0 ? cword - 1 : 0]}`
)
