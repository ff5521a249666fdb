package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// permissions tries each command, key and channel, and says which this user may not use.
func (e *Exam) permissions(ctx context.Context) {
	k := keysOf(e.name)
	tried, missing, refused := 0, 0, map[string]bool{}
	try := func(s Severity, what, why, lack string) {
		tried++
		text := fmt.Sprintf("%s, for %s", what, why)
		if lack == "" {
			e.detail(OK, "permission", text)
			return
		}
		missing++
		refused[what] = true
		e.detail(s, "permission", text+": "+lack)
	}
	for _, p := range e.probes(k) {
		if p.needs != "" && refused[p.needs] {
			continue // it would leave something behind
		}
		lack := lacking(e.send(ctx, p.key, p.args))
		if p.why == "" || lack == noAccess {
			continue // it only cleans up; or the command is allowed, and the keys come later
		}
		try(p.severity, "+"+p.name, p.why, lack)
	}
	for _, p := range k.patterns() {
		try(p.severity, "~"+p.pattern, p.why, lacking(e.send(ctx, p.key, p.args)))
	}
	for _, c := range k.channels() {
		try(Problem, "&"+c.pattern, "publishing "+c.why, lacking(e.publish(ctx, c)))
		try(Problem, "&"+c.pattern, "subscribing to "+c.why, lacking(e.subscribe(ctx, c)))
	}
	e.summarize(tried, missing)
}

// summarize says how many permissions are missing, for which names that was tried, and what to do.
func (e *Exam) summarize(tried, missing int) {
	with := "with a lock named " + e.name
	advice := "if this user may only use names that start with a prefix, check those: " +
		"relock doctor PREFIX; relock acl PREFIX prints the rule that it needs"
	if e.Prefix != "" {
		with = "with a lock whose name starts with " + strconv.Quote(e.Prefix)
		advice = "relock acl, with the same prefix, prints the rule that this user needs"
	}
	if missing == 0 {
		e.say(OK, "permissions", fmt.Sprintf("all %d that were tried, %s", tried, with), "")
		return
	}
	text := fmt.Sprintf("%d were tried, %s: the %d above are missing", tried, with, missing)
	e.say(Note, "permissions", text, advice)
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

// subscribe subscribes on a connection of its own, and closes that. It does not unsubscribe: rueidis sends a PING
// behind UNSUBSCRIBE, and panics if the server refuses that.
func (e *Exam) subscribe(ctx context.Context, c channel) error {
	return e.client.Dedicated(func(d rueidis.DedicatedClient) error {
		defer d.Close()
		on := d.B().Subscribe().Channel(c.name).Build()
		if c.sharded && e.sharded(ctx) {
			on = d.B().Ssubscribe().Channel(c.name).Build()
		}
		d.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
		return d.Do(ctx, on).Error()
	})
}

const noAccess = "no access"

// lacking returns why a command failed, if it is for want of a permission or because the server
// does not have it.
func lacking(err error) string {
	if err == nil || rueidis.IsRedisNil(err) {
		return ""
	}
	if _, isReply := rueidis.IsRedisErr(err); !isReply {
		return err.Error()
	}
	text := strings.ToLower(err.Error())
	switch {
	case strings.Contains(text, "noperm") && strings.Contains(text, " access "):
		return noAccess
	case strings.Contains(text, "noperm"):
		return "not allowed"
	case strings.Contains(text, "unknown command"), strings.Contains(text, "unknown subcommand"):
		return "the server does not know it"
	case strings.Contains(text, "scripting engine"): // Valkey, whose module is not loaded
		return "the server runs no Lua scripts"
	}
	return ""
}
