package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/relock-go/relock/internal/lockerr"
)

// A Ticket stands for a hold that was handed off. Its text is a secret: who has it gets the lock.
// The hold id in Redis, which others may see, does not tell it, for that is a hash of the ticket's
// random number.
type Ticket struct {
	Prefix, Name string // of the lock
	Session      string // that handed it off
	Until        int64  // when it ends, on the server's clock (ms)
	secret       [16]byte
}

// NewTicket returns a ticket with a new secret.
func NewTicket(prefix, name, session string) *Ticket {
	t := &Ticket{Prefix: prefix, Name: name, Session: session}
	_, _ = rand.Read(t.secret[:]) // never fails
	return t
}

// HoldID returns the id of the hold that the ticket stands for.
func (t *Ticket) HoldID() string {
	sum := sha256.Sum256(t.secret[:])
	return fmt.Sprintf("%s:%d", t.Session, binary.BigEndian.Uint64(sum[:])>>2)
}

const (
	ticketHead  = "relock_ticket_"
	ticketLeast = 16 + 8 + sessionSize + 2 + 1 + ticketCheck
	ticketCheck = 4 // bytes of a check sum
	sessionSize = 36
)

// Text returns the ticket as users pass it on: letters, digits, - and _.
func (t *Ticket) Text() string {
	b := binary.BigEndian.AppendUint64(t.secret[:], uint64(t.Until))
	b = append(b, t.Session...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(t.Prefix)))
	b = append(b, t.Prefix+t.Name...)
	sum := sha256.Sum256(b)
	return ticketHead + base64.RawURLEncoding.EncodeToString(append(b, sum[:ticketCheck]...))
}

// ErrTicket: a text is not a ticket. The error does not show it, for a part of a ticket may be as
// good as all of it.
var ErrTicket = fmt.Errorf("%w: this is not a ticket of Handoff, or not all of one", lockerr.ErrOption)

// ReadTicket returns the ticket with that text.
func ReadTicket(text string) (*Ticket, error) {
	coded, ok := strings.CutPrefix(text, ticketHead)
	b, err := base64.RawURLEncoding.DecodeString(coded)
	if !ok || err != nil || len(b) < ticketLeast {
		return nil, ErrTicket
	}
	b, check := b[:len(b)-ticketCheck], b[len(b)-ticketCheck:]
	if sum := sha256.Sum256(b); string(sum[:ticketCheck]) != string(check) {
		return nil, ErrTicket
	}
	t := new(Ticket)
	b = b[copy(t.secret[:], b):]
	t.Until, b = int64(binary.BigEndian.Uint64(b)), b[8:]
	t.Session, b = string(b[:sessionSize]), b[sessionSize:]
	size := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; size >= len(b) || !IsHoldID(t.HoldID()) {
		return nil, ErrTicket
	}
	t.Prefix, t.Name = string(b[:size]), string(b[size:])
	return t, nil
}
