package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/wire"
)

// passingFlags are the flags of run by which a lock goes from one call of relock to another.
type passingFlags struct {
	handoff     duration
	file, adopt string
}

const ticketVariable = "RELOCK_TICKET"

func (f *passingFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.Var(&f.handoff, "handoff", "when the command has succeeded, keep the lock for `D` for who has the ticket, which is printed (5m without =D)")
	fs.Lookup("handoff").NoOptDefVal = "5m"
	fs.StringVar(&f.file, "ticket-file", "", "write the ticket to `FILE`, that only you may read, instead of standard output")
	fs.StringVar(&f.adopt, "adopt", "", "go on with the lock of a `TICKET`; @FILE has it in a file, env in $"+ticketVariable+": arguments are seen by others")
	for _, kind := range []string{"shared", "exclusive", "fair", "slots"} {
		cmd.MarkFlagsMutuallyExclusive("handoff", kind)
		cmd.MarkFlagsMutuallyExclusive("adopt", kind)
	}
}

// readTicket returns the ticket to adopt, if there is one.
func (f *passingFlags) readTicket(prefix string) (ticket string, err error) {
	if f.adopt == "" {
		return "", nil
	}
	file, isFile := strings.CutPrefix(f.adopt, "@")
	switch {
	case isFile:
		var text []byte
		text, err = os.ReadFile(file)
		ticket = string(text)
	case f.adopt == "env":
		if ticket = os.Getenv(ticketVariable); ticket == "" {
			err = errors.New("$" + ticketVariable + " is empty")
		}
	default:
		ticket = f.adopt
	}
	ticket = strings.TrimSpace(ticket)
	if isFile && err == nil && ticket == "" {
		err = fmt.Errorf("%s is empty: the command before this one did not hand its lock off", file)
	}
	if err == nil {
		err = fits(ticket, prefix)
	}
	if err != nil {
		return "", &exit{statusUsage, fmt.Errorf("--adopt: %w", err)}
	}
	return ticket, nil
}

// fits returns why a ticket is of no use, as far as that is known without Redis.
func fits(ticket, prefix string) error {
	t, err := wire.ReadTicket(ticket)
	if err == nil && t.Prefix != prefix {
		err = fmt.Errorf("the lock of the ticket has the prefix %q, and not %q", t.Prefix, prefix)
	}
	return err
}

// openTicket returns where the ticket is to be written, before the lock is acquired: a ticket that nobody has keeps it
// taken. What the file has stays until then: it may be the ticket of the lock that is waited for, or adopted.
func (f *passingFlags) openTicket() (*os.File, error) {
	if f.file == "" {
		return os.Stdout, nil
	}
	file, err := os.OpenFile(f.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil && isRegular(file) {
		err = file.Chmod(0o600)
	}
	if err != nil {
		return nil, &exit{statusUsage, fmt.Errorf("--ticket-file: %w", err)}
	}
	return file, nil
}

// isRegular reports whether a file is no device or pipe, whose mode and contents are not of one ticket alone.
func isRegular(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// emptyTicket removes an earlier ticket from the file, when the lock is held: if the command hands
// nothing off, the next one must not find a ticket.
func (r *runner) emptyTicket() error {
	if r.ticketTo == nil || r.ticketTo == os.Stdout || !isRegular(r.ticketTo) {
		return nil
	}
	if err := r.ticketTo.Truncate(0); err != nil {
		return &exit{statusUsage, fmt.Errorf("--ticket-file: %w", err)}
	}
	return nil
}

// writeTicket writes a ticket to where it is to be.
func (r *runner) writeTicket(ticket string) error {
	signal.Ignore(syscall.SIGPIPE) // of a reader who has gone, and would end this process; the command has ended
	_, err := fmt.Fprintln(r.ticketTo, ticket)
	if r.ticketTo == os.Stdout {
		return err
	}
	return errors.Join(err, r.ticketTo.Close())
}

// An adopter acquires the lock that was handed off with a ticket.
type adopter struct {
	session *relock.Session
	ticket  string
	opts    []relock.LockOption
}

func (a *adopter) Acquire(ctx context.Context) (*relock.Hold, error) {
	return a.session.Adopt(ctx, a.ticket, a.opts...)
}

func (a *adopter) TryAcquire(ctx context.Context) (*relock.Hold, error) { return a.Acquire(ctx) }

// handOff ends the hold, and writes its ticket. If the ticket cannot be written, the lock is released.
func (r *runner) handOff() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.cmd.Context()), startWithin)
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-r.signals: // the user does not wait for Redis
			cancel()
		case <-ctx.Done():
		}
	}()
	ticket, err := r.held.hold.Handoff(ctx, r.handoff.Duration)
	if err != nil {
		return err
	}
	if err = r.writeTicket(ticket); err == nil {
		r.handedOff = true
		return nil
	}
	err = fmt.Errorf("the ticket could not be written: %w", err)
	hold, failed := r.held.reader.Session.Adopt(ctx, ticket)
	if failed == nil {
		failed = hold.Unlock(ctx)
	}
	return errors.Join(err, failed)
}
