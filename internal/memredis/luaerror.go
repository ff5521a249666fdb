package memredis

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// A test of a user's scripts may look at the text of their errors. miniredis has its own; these are
// put into the words of Redis 7, as far as they say the same.

var (
	luaRuntime = regexp.MustCompile(`(?s)^-ERR Error compiling script \(new function\): (?::(\d+): )?(.*?) stack traceback: .*$`)
	luaSyntax  = regexp.MustCompile(`(?s)^-ERR Error compiling script \(new function\): <string> line:(\d+)\(column:\d+\) (near '.*'):.*$`)
	luaCode    = regexp.MustCompile(`^[A-Z]{3,} `)
	ofCall     = " script: " // begins what miniredis adds to errors of redis.call
)

// asRedis words the reply to a command that runs a script as Redis does.
func asRedis(reply, command []byte) []byte {
	if reply[0] != '-' {
		return reply
	}
	if m := luaSyntax.FindSubmatch(reply); m != nil {
		return fmt.Appendf(nil, "-ERR Error compiling script (new function): user_script:%s: syntax error %s\r\n", m[1], m[2])
	}
	m := luaRuntime.FindSubmatch(reply)
	if m == nil {
		return reply
	}
	line, text := string(m[1]), string(m[2])
	if line == "" {
		line = "1"
	}
	own, _, called := strings.Cut(text, ofCall)
	switch {
	case called:
		text = "ERR " + own
	case !luaCode.MatchString(text):
		text = "ERR user_script:" + line + ": " + text
	}
	return fmt.Appendf(nil, "-%s script: %s, on @user_script:%s.\r\n", text, digestOf(command), line)
}

// scriptOf returns command if it runs a script, nil if it does not.
func scriptOf(command []byte) []byte {
	if v := verb(command); v != "EVAL" && v != "EVALSHA" {
		return nil
	}
	return command
}

// digestOf returns the digest of the script that a command runs.
func digestOf(command []byte) string {
	known := verb(command) == "EVALSHA"
	for range 3 { // the size of the array, and the name with its length
		_, command, _ = bytes.Cut(command, []byte("\n"))
	}
	_, script, _ := bytes.Cut(command[:length(command)], []byte("\n"))
	script = bytes.TrimSuffix(script, []byte("\r\n"))
	if known {
		return string(script)
	}
	sum := sha1.Sum(script)
	return hex.EncodeToString(sum[:])
}
