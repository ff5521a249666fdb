// The command relock runs programs under distributed locks on Redis, and shows and opens locks.
// README.md is its guide.
package main

import (
	"os"

	"github.com/relock-go/relock/cmd/relock/internal/command"
	"github.com/relock-go/relock/cmd/relock/internal/job"
)

func main() {
	job.RunGuard()
	os.Exit(command.Main())
}
