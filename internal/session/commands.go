package session

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// tried are the commands of the scripts, each with arguments by which it changes nothing: it finds
// no key, or is refused for the number of its arguments. KEY is a key of the session's own. Two
// that relock can do without are missing: PUBSUB and HRANDFIELD. So is PUBLISH, which is tried on
// its own.
var tried = []string{
	"time", "exists KEY", "pttl KEY", "pexpire KEY 1", "pexpireat KEY 1",
	"get KEY", "set KEY 1 px 1 xx", "del KEY",
	"hset KEY 1 1 1", "hget KEY 1", "hdel KEY 1", "hlen KEY", "hkeys KEY", "hexists KEY 1", "hgetall KEY",
	"zadd KEY xx 0 1", "zrem KEY 1", "zcard KEY", "zscore KEY 1", "zcount KEY 0 0",
	"zrange KEY 0 0", "zrangebyscore KEY 0 0",
}

// triedText runs those commands, and returns each that is refused with the words of the refusal.
// What runs is a script, as it will be: a proxy may know other commands than the server behind it.
// KEYS stays empty, since a user need not have the right to KEY.
const triedText = `--!df flags=allow-undeclared-keys
local refused = {}
for i = 2, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do
    words[#words + 1] = word == 'KEY' and ARGV[1] or word
  end
  local reply = redis.pcall(unpack(words))
  if type(reply) == 'table' and reply.err then
    refused[#refused + 1] = words[1]
    refused[#refused + 1] = reply.err
  end
end
return refused`

// ofExpiry are the commands without which no key expires: SET has the option PX.
var ofExpiry = []string{"pexpire", "pexpireat", "set"}

// tryCommands returns the command that tries the commands of the scripts.
func (s *Session) tryCommands() []string {
	key := wire.PrefixSession + "{" + s.ID + "}:tried"
	return append([]string{"EVAL", triedText, "0", key}, tried...)
}

var (
	// A server looks at what a command is, and at who may run it, before it looks at arguments and
	// keys.
	ofArguments = regexp.MustCompile(`\bkeys?\b|wrong number of arguments`)
	ofUser      = regexp.MustCompile(`can't run this command|no permissions to run`)
)

var errDown = errors.New("the cluster is down")

// lacking returns an error that names the commands that scripts may not run, whatever the reason. A
// script that lacks one may fail half-way: a release would leave the lock taken until its lease
// ends. A refusal that is of the arguments, or of the state that the server is in, shows that there
// is the command. While the cluster is down it is errDown: no command runs.
func lacking(answer rueidis.RedisResult) error {
	refused, err := answer.AsStrSlice()
	if _, whole := transport.Code(err); whole && ofArguments.MatchString(err.Error()) {
		return nil // it does not run a script whose keys are not declared, and so does not tell
	}
	if err != nil {
		return err
	}
	var forbidden, missing []string
	said := ""
	for pair := range slices.Chunk(refused, 2) {
		command, refusal := pair[0], pair[1]
		switch code := transport.RedisCode(refusal); {
		case strings.Contains(refusal, "cluster is down"): // as an error without a code
			return errDown
		case ofUser.MatchString(refusal):
			forbidden = append(forbidden, command)
		case transport.Passes(code) || code == "OOM" || ofArguments.MatchString(refusal):
		default:
			missing, said = append(missing, command), refusal
		}
	}
	switch {
	case len(missing) > 0:
		why := ""
		if slices.ContainsFunc(missing, func(c string) bool { return slices.Contains(ofExpiry, c) }) {
			why = "; a lock is a lease, and needs keys that expire"
		}
		return fmt.Errorf("this server does not run %s in scripts, which locks cannot do without%s; "+
			"it says: %s", strings.Join(missing, ", "), why, said)
	case len(forbidden) > 0:
		return fmt.Errorf("this Redis user may not run %s in scripts: give it +%s with ACL SETUSER; "+
			"docs/operating.md has the whole rule",
			strings.Join(forbidden, ", "), strings.Join(forbidden, " +"))
	}
	return nil
}
