package relocktest_test

import (
	"testing"

	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
)

// A user's test of a script that fails sees what Redis 7.0.15 answers.
func TestErrorsOfScriptsAreWordedAsByRedis(t *testing.T) {
	t.Parallel()
	c := relocktest.New(t).Client()
	require.NoError(t, c.Do(background, c.B().Set().Key("s").Value("x").Build()).Error())
	for _, test := range []struct{ script, want string }{
		{"return redis.call('incr','s')", "value is not an integer or out of range script: " +
			"c243b9f46db13ba8f69da41b45a77708832babed, on @user_script:1."},
		{"return redis.call('hget','s','f')", "WRONGTYPE Operation against a key holding the wrong kind of value script: " +
			"64297d6d32be3d4808f59751b5cee66a1eb4c060, on @user_script:1."},
		{"return redis.call('nosuch')", "Unknown Redis command called from script script: " +
			"206396248e12c6e742fd7296250433c8d7343b74, on @user_script:1."},
		{"error('boom')", "user_script:1: boom script: 82903a0434f1503e152f89c03c9acd881a0e8150, on @user_script:1."},
		{"return redis.pcall('hget','s','f')", "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"return redis.error_reply('MY err')", "MY err"},
	} {
		require.EqualError(t, c.Do(background, c.B().Eval().Script(test.script).Numkeys(0).Build()).Error(), test.want)
	}
	err := c.Do(background, c.B().Eval().Script("this is not lua").Numkeys(0).Build()).Error()
	require.EqualError(t, err, "Error compiling script (new function): user_script:1: syntax error near 'is'")
	digest, err := c.Do(background, c.B().ScriptLoad().Script("error('boom')").Build()).ToString()
	require.NoError(t, err)
	err = c.Do(background, c.B().Evalsha().Sha1(digest).Numkeys(0).Build()).Error()
	require.EqualError(t, err, "user_script:1: boom script: "+digest+", on @user_script:1.")
}
