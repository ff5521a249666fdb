package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// tried are the commands of the scripts, each with arguments by which it changes nothing: it reads a
// key that does not exist, or is refused for its last argument. KEY is a key of the session's own.
// Two that relock can do without are missing: PUBSUB and HRANDFIELD. So is PUBLISH, which is tried
// on its own.
var tried = []string{
	"time", "exists KEY", "pttl KEY", "pexpire KEY 1", "pexpireat KEY 1", "get KEY", "set KEY 1 px 0", "del KEY",
	"hset KEY 1 1 1", "hget KEY 1", "hdel KEY 1", "hlen KEY", "hkeys KEY", "hexists KEY 1", "hgetall KEY", "zadd KEY x 1",
	"zrem KEY 1", "zcard KEY", "zscore KEY 1", "zrange KEY 0 0", "zrangebyscore KEY 0 0", "zcount KEY 0 0",
	"zremrangebyrank KEY 0 0", "zremrangebyscore KEY 0 0", "lindex KEY 0",
}

// triedText returns those commands that the user may not run in a script. Redis finds that out before
// it looks at the keys, and says it in words that differ between versions. KEYS stays empty, since a
// user need not have the right to KEY.
const triedText = `--!df flags=allow-undeclared-keys
local lacking = {}
for i = 2, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = word == 'KEY' and ARGV[1] or word end
  local reply = redis.pcall(unpack(words))
  local err = type(reply) == 'table' and reply.err or ''
  if string.find(err, "can't run this command", 1, true) or string.find(err, 'no permissions to run', 1, true) then
    lacking[#lacking + 1] = words[1]
  end
end
return lacking`

// commands checks that the user may run every command of the scripts. A script that lacks one may
// fail half-way: a release would leave the lock taken until its lease ends.
func (e *Engine) commands(ctx context.Context) error {
	args := append([]string{"EVAL", triedText, "0", wire.PrefixSession + "{" + e.id + "}:tried"}, tried...)
	lacking, err := e.proto.Inquire(ctx, args...).AsStrSlice()
	if _, refused := transport.Code(err); refused { // no scripts, as CheckScripts will find
		return nil
	}
	if err == nil && len(lacking) > 0 {
		err = fmt.Errorf("this Redis user may not run %s in scripts: give it +%s with ACL SETUSER; README.md has the whole rule",
			strings.Join(lacking, ", "), strings.Join(lacking, " +"))
	}
	return err
}
