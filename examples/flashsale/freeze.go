package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"text/tabwriter"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/demo"
)

// freezeLease is short, so that nobody waits long for the lease of the frozen instance to end.
const freezeLease = time.Second

// frozenBuyer is whom the frozen instance serves.
const frozenBuyer = "order frozen"

// freeze holds the sale twice, once with plain writes and once with Hold.Eval, each with one
// more instance that is frozen in the middle of its sale, and shows both outcomes.
func freeze(ctx context.Context, o *options, stdout, stderr io.Writer) int {
	var plain, guarded *result
	for _, r := range []**result{&plain, &guarded} {
		var err error
		o.guarded = r == &guarded
		if *r, err = hold(ctx, o, new(stats), stdout); err != nil {
			return failed(ctx, stderr, err)
		}
	}
	late := map[bool]string{true: "made", false: "refused"}
	t := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "\tplain write\tHold.Eval\n")
	fmt.Fprintf(t, "sold\t%d of %d\t%d of %d\n", plain.sold, plain.stock, guarded.sold, guarded.stock)
	fmt.Fprintf(t, "oversold\t%d\t%d\n", plain.over(), guarded.over())
	fmt.Fprintf(t, "sold twice\t%d\t%d\n", plain.twice, guarded.twice)
	fmt.Fprintf(t, "late write\t%s\t%s\n", late[plain.late], late[guarded.late])
	t.Flush()
	return guarded.status(stdout)
}

// frozen is one more instance of the shop, a process of its own. It has the lock, has read the
// stock, and is stopped before it writes. In a program that happens by itself: the machine is
// suspended or migrated, or out of memory, or the kernel does not run the process for a while.
type frozen struct {
	cmd  *exec.Cmd
	goOn io.Writer
}

// frozenEnv tells a process of this program that it is to be frozen, and at which sale.
const frozenEnv = "FLASHSALE_FROZEN"

// frozenSale is the value of frozenEnv. Redis may contain a password, which is why it is not an
// argument, which other users see.
type frozenSale struct {
	Redis      string
	InMemory   bool
	Lock, Sale string
	Guarded    bool
}

// startFrozen starts an instance and returns once it is stopped under the lock. The caller must
// call end.
func startFrozen(ctx context.Context, s frozenSale) (_ *frozen, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	f := &frozen{cmd: exec.CommandContext(ctx, program)}
	f.cmd.Env = append(os.Environ(), frozenEnv+"="+string(text))
	f.cmd.Stderr = os.Stderr
	if f.goOn, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	said, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := f.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err = bufio.NewReader(said).ReadString('\n'); err == nil {
		err = suspend(f.cmd.Process)
	}
	if err != nil {
		f.end()
		return nil, fmt.Errorf("the instance to be frozen: %w", err)
	}
	return f, nil
}

// thaw lets the instance go on, and returns when it has served its buyer.
func (f *frozen) thaw() error {
	if _, err := fmt.Fprintln(f.goOn); err != nil {
		return err
	}
	if err := resume(f.cmd.Process); err != nil {
		return err
	}
	return f.cmd.Wait()
}

// end ends the instance if it has not ended by itself.
func (f *frozen) end() {
	if f.cmd.ProcessState == nil {
		_ = f.cmd.Process.Kill()
		_ = f.cmd.Wait()
	}
}

// runFrozen is the instance that is frozen, in its own process.
func runFrozen(ctx context.Context, sale string) (err error) {
	var s frozenSale
	if err := json.Unmarshal([]byte(sale), &s); err != nil {
		return err
	}
	server, err := demo.Open(s.Redis)
	if err != nil {
		return err
	}
	defer server.Close()
	server.Option.ForceSingleClient = s.InMemory // as demo.Open has it
	in := &instance{lock: s.Lock, sale: s.Sale, guarded: s.Guarded}
	if in.client, err = server.Connect(); err != nil {
		return err
	}
	defer in.client.Close()
	if in.session, err = relock.NewSession(ctx, in.client, relock.WithLease(freezeLease)); err != nil {
		return err
	}
	defer in.session.Close(context.WithoutCancel(ctx))
	in.pause = func() error {
		fmt.Println("about to write")
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	}
	_, err = in.buy(ctx, frozenBuyer)
	return err
}
