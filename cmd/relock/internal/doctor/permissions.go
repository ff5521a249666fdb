package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// permissions tries each command, key and channel, and says which this user may not use.
func (e *Exam) permissions(ctx context.Context) {
	k := keysOf(e.name)
	tried, refused := 0, map[string]bool{}
	try := func(s Severity, what, why string, err error) {
		tried++
		switch lack := lacking(err); {
		case lack != "":
			refused[what] = true
			e.detail(s, "permission", fmt.Sprintf("%s is missing, for %s: %s", what, why, lack))
		default:
			e.detail(OK, "permission", fmt.Sprintf("%s, for %s", what, why))
		}
	}
	for _, p := range e.probes(k) {
		if p.needs != "" && refused[p.needs] {
			continue // it would leave something behind
		}
		try(p.severity, "+"+p.name, p.why, e.send(ctx, p.key, p.args))
	}
	for _, p := range k.patterns() {
		try(p.severity, "~"+p.pattern, p.why, e.send(ctx, p.key, p.args))
	}
	for _, c := range k.channels() {
		try(Problem, "&"+c.pattern, "publishing "+c.why, e.publish(ctx, c))
		try(Problem, "&"+c.pattern, "subscribing to "+c.why, e.subscribe(ctx, c))
	}
	if len(refused) == 0 {
		e.say(OK, "permissions", fmt.Sprintf("all %d commands, keys and channels", tried), "")
		return
	}
	e.say(Note, "permissions", fmt.Sprintf("%d of %d tried commands, keys and channels are missing", len(refused), tried),
		"README.md of relock has the rule for ACL SETUSER; if only names with a prefix are allowed, give it: relock doctor PREFIX")
}

// send sends one command. Some have no key.
func (e *Exam) send(ctx context.Context, key string, args []string) error {
	b := e.client.B().Arbitrary(strings.Split(args[0], " ")...)
	if key != "" {
		b = b.Keys(key)
	}
	return e.client.Do(ctx, b.Args(args[1:]...).Build()).Error()
}

// publish publishes where nobody listens.
func (e *Exam) publish(ctx context.Context, c channel) error {
	if c.sharded && e.sharded(ctx) {
		return e.client.Do(ctx, e.client.B().Spublish().Channel(c.name).Message("").Build()).Error()
	}
	return e.client.Do(ctx, e.client.B().Publish().Channel(c.name).Message("").Build()).Error()
}

// subscribe subscribes on a connection of its own, and unsubscribes.
func (e *Exam) subscribe(ctx context.Context, c channel) error {
	return e.client.Dedicated(func(d rueidis.DedicatedClient) error {
		on, off := d.B().Subscribe().Channel(c.name).Build(), d.B().Unsubscribe().Channel(c.name).Build()
		if c.sharded && e.sharded(ctx) {
			on, off = d.B().Ssubscribe().Channel(c.name).Build(), d.B().Sunsubscribe().Channel(c.name).Build()
		}
		d.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
		if err := d.Do(ctx, on).Error(); err != nil {
			return err
		}
		return d.Do(ctx, off).Error()
	})
}

// lacking returns why a command failed, if it is for want of a permission or because the server
// does not have it.
func lacking(err error) string {
	if _, isReply := rueidis.IsRedisErr(err); !isReply {
		if err == nil || rueidis.IsRedisNil(err) {
			return ""
		}
		return err.Error()
	}
	text := err.Error()
	for _, sign := range []string{"NOPERM", "unknown command", "unknown subcommand", "rename"} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(sign)) {
			return text
		}
	}
	return ""
}
