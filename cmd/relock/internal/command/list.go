package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [PATTERN]",
		Short: "List the locks that are held",
		Long: `list shows the locks that are held, with holder, time held, time to live, and waiters.
PATTERN is one of SCAN: * and ? stand for any characters, [ab] for one of some. With
--prefix it is of the names behind the prefix, and no other keys are looked at.

It looks at all keys, in steps of 500 (SCAN), first for hashes and then for sorted sets
(semaphores), and at no more than a few fields of each to tell whether it is a lock.

` + aboutKept,
		Example: "  relock list 'goods:*'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			r, done, err := open(ctx, cmd)
			if err != nil {
				return err
			}
			defer done()
			pattern := strings.Join(args, "")
			names, err := locks.All(ctx, r.Client, r.Prefix, pattern)
			if err != nil {
				return failed(err)
			}
			all, err := r.ReadAll(ctx, names)
			if err != nil {
				return failed(err)
			}
			held := []locks.Lock{}
			for _, l := range all {
				if l.Locked() { // else it was released in between
					held = append(held, l)
				}
			}
			if asJSON {
				printJSON(cmd.OutOrStdout(), held)
			} else {
				printTable(cmd.OutOrStdout(), held)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printTable prints one line for each lock.
func printTable(w io.Writer, all []locks.Lock) {
	var table bytes.Buffer
	t := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tKIND\tHOLDER\tHELD\tTTL\tWAITERS")
	for _, l := range all {
		holder := l.Holder()
		if n := len(l.Holders); n > 1 {
			holder += fmt.Sprintf(" and %d more", n-1)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\n", locks.Printable(l.Name), l.Kind(), holder, locks.HeldFor(l), locks.TimeToLive(l), l.Waiters)
	}
	_ = t.Flush() // to memory
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || widest(table.String()) <= width { // or it is no terminal
		_, _ = w.Write(table.Bytes())
		return
	}
	printNarrow(w, all)
}

// printNarrow prints a table for a narrow terminal: who holds a lock is on a line of its own.
func printNarrow(w io.Writer, all []locks.Lock) {
	for _, l := range all {
		fmt.Fprintf(w, "%s\n  %s, held %s, TTL %s, waiters %d\n", locks.Printable(l.Name), l.Kind(), locks.HeldFor(l), locks.TimeToLive(l), l.Waiters)
		for _, h := range l.Holders {
			fmt.Fprintf(w, "  by %s\n", locks.Who(h))
		}
		if l.Note != "" {
			fmt.Fprintf(w, "  note: %s\n", locks.Printable(l.Note))
		}
	}
}

// widest returns how many columns the longest line has.
func widest(text string) (columns int) {
	for line := range strings.Lines(text) {
		columns = max(columns, uniseg.StringWidth(line))
	}
	return columns
}

// lockJSON is a lock as --json prints it. Fields may be added.
type lockJSON struct {
	Name    string       `json:"name"`
	Mode    string       `json:"mode"`
	Kind    string       `json:"kind,omitempty"`
	Holders []holderJSON `json:"holders"`
	TTL     int64        `json:"ttl_ms"` // -1: it does not expire
	Held    *int64       `json:"held_ms,omitempty"`
	Waiters int          `json:"waiters"`
	Token   int64        `json:"token,omitempty"`
	Permits int          `json:"permits,omitempty"`
	Note    string       `json:"note,omitempty"`
}

type holderJSON struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Label   string `json:"label,omitempty"`
	Count   int    `json:"count"`
	Slot    *int   `json:"slot,omitempty"`
}

func printJSON(w io.Writer, all []locks.Lock) {
	out := make([]lockJSON, len(all))
	for i, l := range all {
		o := lockJSON{
			Name: l.Name, Mode: l.Mode.String(), Kind: l.Kind(), Holders: []holderJSON{},
			TTL: max(-1, int64(l.TTL/time.Millisecond)), Waiters: l.Waiters,
			Token: l.Token, Permits: l.Permits, Note: l.Note,
		}
		if l.Held > 0 {
			ms := l.Held.Milliseconds()
			o.Held = &ms
		}
		for _, h := range l.Holders {
			j := holderJSON{ID: h.ID, Session: h.Session, Label: h.Label, Count: h.Count}
			if l.Permits > 0 {
				j.Slot = &h.Slot
			}
			o.Holders = append(o.Holders, j)
		}
		out[i] = o
	}
	printAny(w, out)
}

func printAny(w io.Writer, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // all of it can be marshalled
	}
	_, _ = w.Write(append(escapedJSON(text), '\n'))
}

// escapedJSON escapes what a terminal may act on, and package json leaves as it is.
func escapedJSON(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		switch {
		case r == '\n' || locks.Prints(r):
			out = utf8.AppendRune(out, r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
	}
	return out
}
