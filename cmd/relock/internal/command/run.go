package command

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// runFlags are the flags of run.
type runFlags struct {
	noWait, shared, exclusive, fair, yield, verbose, quiet bool
	wait, lease, minHold, maxHold, grace                   duration
	label, note                                            string
	conflict, lost, slots                                  int
	passingFlags
}

const runLong = `run runs a command while it holds a lock. It waits for the lock first, unless -n or -w
says otherwise. The command has the standard input, output and error of relock, its name
in $RELOCK_NAME, and in $RELOCK_TOKEN a number that grows from each holder to the
next: a store that refuses smaller ones than it has seen is safe from a late holder.

With --slots N up to N run at a time, in order of arrival, and $RELOCK_SLOT is from 0 to
N-1: no two that run have the same, and the lowest that is free is given out.

A run inside another one that would wait for that one is refused, since it would wait for
itself; so $RELOCK_SESSIONS says which sessions are around a command.

INT, TERM, HUP and QUIT are passed on to the command's process group. While relock
still waits, they end it. What outlives the command after a signal has the grace to end
under the lock. A name that begins with a dash stands between two "--".

When the lock is lost the group gets TERM, and KILL after the grace. When Redis does
not confirm the lock in time, both come before somebody else can have it. What the
command leaves in the background when it ends by itself goes on without the lock.

With --handoff the lock is not released when the command has ended by itself with status 0:
relock writes a ticket, and relock run --adopt goes on with the lock, at any host. The lock
has never been free in between. A ticket is a secret, and works once. If the command fails,
or was told to end, the lock is released.

With --yield the group gets TERM once when somebody else waits for the lock, and keeps
it until it has ended.

After a loss the exit status is the command's own too, so a command that catches TERM and
exits with 0 looks like a success. With --lost-exit-code N relock exits with N instead,
whatever the command's status, if the lock was lost while the command ran, if relock ended
the command because Redis did not confirm the lock in time, or if the release found the
lock gone.

Exit status: the command's own, or 128 plus the signal that killed it; -E (default 1) if
the lock is taken, or the ticket of no use; 64 for a wrong command line, and if a relock
run around this one has the lock; 65 if the name is that of something else
than a lock; 69 if Redis cannot be reached or refuses; 71 if the system has no room for
another process; 126 and 127 if the command cannot be run or found. If a signal kills the
command, or ends the wait, relock dies of the same one.`

func newRun() *cobra.Command {
	f := &runFlags{lease: duration{Duration: 30 * time.Second}, grace: duration{Duration: 5 * time.Second}}
	cmd := &cobra.Command{
		Use:   "run [flags] [NAME] -- COMMAND [ARG…]",
		Short: "Run a command while holding a lock",
		Long:  runLong,
		Example: `  relock run nightly-report -- ./report.sh
  relock run -n nightly-report -- ./report.sh   # do not wait if another host has it
  relock run -w 30s -E 75 deploy -- make deploy
  relock run --slots 4 encode -- ./encode.sh    # at most 4 at a time, on all hosts
  relock run --handoff=1h --ticket-file t deploy -- make build
  relock run --adopt @t -- make deploy`,
		ValidArgsFunction: completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, command, err := f.split(cmd.ArgsLenAtDash(), args)
			if err == nil {
				err = f.check(cmd)
			}
			if err != nil {
				return err
			}
			return newRunner(cmd, f, name, command).run()
		},
	}
	f.define(cmd)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if !slices.Contains(os.Args, "--") { // probably a flag of the command
			return usage("%s (%v)", needsDashes, err)
		}
		return err
	})
	return cmd
}

func (f *runFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVarP(&f.noWait, "no-wait", "n", false, "do not wait if the lock is taken")
	fs.VarP(&f.wait, "wait", "w", "wait at most `D`, such as 10s; a bare number is seconds")
	fs.Var(&f.wait, "timeout", "the same as --wait `D`")
	fs.IntVarP(&f.conflict, "conflict-exit-code", "E", statusConflict, "exit status `N` if the lock is taken, with -n or -w")
	fs.IntVar(&f.lost, "lost-exit-code", 0,
		"exit status `N`, from 1 to 255, if the lock was lost while the command ran (default the command's own)")
	fs.BoolVarP(&f.shared, "shared", "s", false, "share the lock with others that use -s")
	fs.BoolVarP(&f.exclusive, "exclusive", "x", false, "exclude those that use -s, and have them stand aside while this waits")
	fs.BoolVar(&f.fair, "fair", false, "wait in order of arrival")
	fs.IntVar(&f.slots, "slots", 0, "up to `N` may hold the name at a time (a semaphore), each with a slot of its own")
	fs.Var(&f.lease, "lease", "length `D` of the lease, renewed every third of it; so soon is the lock of a dead host free")
	fs.Var(&f.minHold, "min-hold", "keep the lock taken until `D` after it was acquired, also if the command ends before")
	fs.StringVar(&f.label, "label", "", "who holds the lock, for people: `TEXT` instead of relock@host:pid")
	fs.StringVar(&f.note, "note", "", "why the lock is held, for people: `TEXT` of at most 128 bytes, which list, top and inspect show; not with -s or --slots")
	fs.Var(&f.maxHold, "max-hold", "the command has ended after `D`: TERM comes the grace before that (half of D if that is shorter)")
	fs.Var(&f.grace, "grace", "kill `D` after TERM when the lock is lost, and what outlives a signal")
	f.passingFlags.define(cmd)
	fs.BoolVar(&f.yield, "yield", false, "send the command TERM when somebody else waits for the lock")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "say what happens to the lock")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "say nothing of a lock that is taken or lost")
	cmd.MarkFlagsMutuallyExclusive("shared", "exclusive", "fair", "slots")
	cmd.MarkFlagsMutuallyExclusive("no-wait", "wait", "timeout")
	cmd.MarkFlagsMutuallyExclusive("shared", "note")
	cmd.MarkFlagsMutuallyExclusive("slots", "note")
	cmd.MarkFlagsMutuallyExclusive("shared", "yield") // nobody tells who shares a lock
	cmd.MarkFlagsMutuallyExclusive("verbose", "quiet")
}

// split returns the name of the lock, if it is given, and the command. A name that begins with a
// dash may stand between two "--". dash is how many arguments stand before the first one.
func (f *runFlags) split(dash int, args []string) (name string, command []string, err error) {
	named := dash
	if dash == 0 && f.adopt == "" && len(args) > 1 && args[1] == "--" {
		args = slices.Delete(slices.Clone(args), 1, 2)
		named = 1
	}
	switch {
	case (named == 0 || len(args) == 0) && f.adopt == "":
		err = usage("run needs the name of a lock: relock run NAME -- COMMAND")
	case named > 0 && f.adopt != "":
		err = usage("--adopt: the ticket says which lock; leave its name out")
	case named > 1 || dash < 0:
		err = usage(needsDashes)
	case len(args) == named:
		err = usage("run needs a command after --")
	default:
		return strings.Join(args[:named], ""), args[named:], nil
	}
	return "", nil, err
}

// check finds mistakes before anything is sent.
func (f *runFlags) check(cmd *cobra.Command) error {
	switch {
	case f.conflict < 0 || f.conflict > 255:
		return usage("-E %d: an exit status is from 0 to 255", f.conflict)
	case cmd.Flags().Changed("lost-exit-code") && (f.lost < 1 || f.lost > 255):
		return usage("--lost-exit-code %d: must be from 1 to 255", f.lost)
	case cmd.Flags().Changed("slots") && f.slots < 1:
		return usage("--slots %d: must be at least 1", f.slots)
	case f.lease.Duration < minLease:
		return usage("--lease %v: must be at least %v", f.lease.Duration, minLease)
	case f.minHold.set && f.minHold.Duration < time.Millisecond:
		return usage("--min-hold %v: must be at least 1ms", f.minHold.Duration)
	case f.maxHold.set && f.grace.set && f.maxHold.Duration > 0 && f.grace.Duration >= f.maxHold.Duration:
		return usage("--grace %v: must be shorter than --max-hold", f.grace.Duration)
	case f.maxHold.set && f.maxHold.Duration <= 0:
		return usage("--max-hold %v: must be more than nothing", f.maxHold.Duration)
	case f.handoff.set && f.handoff.Duration < 10*time.Millisecond:
		return usage("--handoff %v: must be at least 10ms", f.handoff.Duration)
	case f.file != "" && !f.handoff.set:
		return usage("--ticket-file goes with --handoff")
	}
	return nil
}

const needsDashes = `run needs "--" between the name of the lock and the command: relock run NAME -- COMMAND`

// minLease leaves time to end a command before its lock is lost.
const minLease = time.Second

func completeRun(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return completeNames(cmd, args, typed)
}

// errTaken says that the lock was not acquired because others have it.
var errTaken = errors.New("taken")
