package doctor

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/cmd/relock/internal/connect"
)

// Severity is how bad a finding is.
type Severity int

const (
	OK      Severity = iota
	Note             // good to know
	Warning          // locks work, but may be lost or slow
	Problem          // locks do not work
)

func (s Severity) String() string { return [...]string{"ok", "note", "WARNING", "PROBLEM"}[s] }

// MarshalText makes JSON say it in words.
func (s Severity) MarshalText() ([]byte, error) {
	return []byte([...]string{"ok", "note", "warning", "problem"}[s]), nil
}

// A Finding is what one check found.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`
	Text     string   `json:"text"`
	Advice   string   `json:"advice,omitempty"`
	Detail   bool     `json:"-"` // one of many that a summary counts
}

// An Exam is one examination of a deployment.
type Exam struct {
	Address string        // as connect.Open takes it
	Prefix  string        // which the names of the locks start with
	Found   func(Finding) // called for each finding, in order

	client rueidis.Client
	name   string // of a lock that nobody else uses
	shut   bool   // a server refuses what locks need, as has been said
	worst  Severity
}

const connectWithin = 15 * time.Second

// Run examines the deployment and returns the worst severity.
func (e *Exam) Run(ctx context.Context) Severity {
	e.name = e.Prefix + "relock-doctor:" + rand.Text()
	dial, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	client, err := connect.Open(dial, e.Address)
	if err != nil {
		e.say(Problem, "connect", err.Error(), "check the address, the password, TLS, and whether the server runs")
		return e.worst
	}
	defer client.Close()
	e.client = client
	masked, _ := connect.Mask(e.Address)
	user, err := client.Do(ctx, client.B().AclWhoami().Build()).ToString()
	if user = ", as user " + user; err != nil {
		user = "" // it may not ask
	}
	e.say(OK, "connect", masked+user, "")
	if settings, err := connect.Settings(e.Address, client.Mode()); err == nil {
		e.say(OK, "client", "that of this command has "+settings,
			"a program's own needs such options too: docs/operating.md of relock")
	}
	e.protocol(ctx)
	e.servers(ctx)
	e.cluster(ctx)
	e.permissions(ctx)
	e.clock(ctx)
	e.roundTrip(ctx)
	e.trial(ctx)
	return e.worst
}

func (e *Exam) say(s Severity, check, text, advice string) {
	e.worst = max(e.worst, s)
	e.Found(Finding{Severity: s, Check: check, Text: text, Advice: advice})
}

// detail reports a finding that a summary counts too.
func (e *Exam) detail(s Severity, check, text string) {
	e.worst = max(e.worst, s)
	e.Found(Finding{Severity: s, Check: check, Text: text, Detail: s == OK})
}
