package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/rueidis"
)

// How long texts for people may be, in bytes.
const (
	MaxLabel = 256 // of a session
	MaxNote  = 128 // of a hold
)

// CheckLabel returns an error if text cannot be a session's label.
func CheckLabel(text string) error { return checkText(text, MaxLabel) }

// CheckNote returns an error if text cannot be the note of a hold.
func CheckNote(text string) error { return checkText(text, MaxNote) }

// Note returns the note of a hold as it is sent. An empty one is not sent, but may be written over
// another.
func Note(text string, over bool) string {
	if text == "" && !over {
		return ""
	}
	return " " + text
}

func checkText(text string, most int) error {
	switch {
	case len(text) > most:
		return fmt.Errorf("it is %d bytes long, more than %d", len(text), most)
	case !utf8.ValidString(text):
		return errors.New("it is not valid UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("it has characters that cannot be printed")
	}
	return nil
}

// labelKey returns the key of a session's label.
func labelKey(session string) string { return PrefixSession + "{" + session + "}" }

// SetLabel stores the label of a session, for that long.
func (p *Protocol) SetLabel(ctx context.Context, session, text string, d time.Duration) error {
	cmd := p.Command([]string{labelKey(session)}, []string{text, "PX", Millis(d)}, "SET")
	return p.Pipelined(ctx, rueidis.Commands{cmd})[0].Error()
}

// DropLabel deletes the label of a session.
func (p *Protocol) DropLabel(ctx context.Context, session string) error {
	cmd := p.Command([]string{labelKey(session)}, nil, "DEL")
	return p.Pipelined(ctx, rueidis.Commands{cmd})[0].Error()
}

// labels returns the labels of the sessions that hold ids, of those that have one.
func (p *Protocol) labels(ctx context.Context, ids map[string]int) map[string]string {
	var sessions []string
	var cmds rueidis.Commands
	labels := make(map[string]string)
	for id := range ids {
		session, _, ok := strings.Cut(id, ":")
		if _, known := labels[session]; ok && !known {
			labels[session] = ""
			sessions = append(sessions, session)
			cmds = append(cmds, p.Command([]string{labelKey(session)}, nil, "GET"))
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	for i, r := range p.Pipelined(ctx, cmds) {
		if text, err := r.ToString(); err == nil && CheckLabel(text) == nil {
			labels[sessions[i]] = text
		}
	}
	return labels
}
