package connect

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("from a file\n"), 0o600))
	type want struct {
		hosts                    string
		user, password           string
		db                       int
		tls                      bool
		master, sentinelPassword string
	}
	for address, w := range map[string]want{
		"localhost":                                    {hosts: "localhost:6379"},
		"localhost:7000":                               {hosts: "localhost:7000"},
		"redis://h":                                    {hosts: "h:6379"},
		"redis://h:1,i:2,j":                            {hosts: "h:1 i:2 j:6379"},
		"redis://[::1]:1,[::2]:2/3":                    {hosts: "[::1]:1 [::2]:2", db: 3},
		"redis://h?addr=i:2&db=4":                      {hosts: "h:6379 i:2", db: 4},
		"redis://me:p%40ss@h:1,i:2/5":                  {hosts: "h:1 i:2", user: "me", password: "p@ss", db: 5},
		"redis://:p@h":                                 {hosts: "h:6379", password: "p"},
		"rediss://h":                                   {hosts: "h:6379", tls: true},
		"unix:///run/redis.sock?db=1":                  {hosts: "/run/redis.sock", db: 1},
		"redis://me@h?password_file=" + file:           {hosts: "h:6379", user: "me", password: "from a file"},
		"redis://s:26379,t:26379?master_set=one":       {hosts: "s:26379 t:26379", master: "one"},
		"redis://s?master_set=one&sentinel_password=p": {hosts: "s:6379", master: "one", sentinelPassword: "p"},
	} {
		o, err := Options(address)
		require.NoError(t, err, address)
		require.Equal(t, w, want{
			strings.Join(o.InitAddress, " "), o.Username, o.Password, o.SelectDB, o.TLSConfig != nil, o.Sentinel.MasterSet, o.Sentinel.Password,
		}, address)
	}
}

func TestMistakesInAddressesAreExplainedWithoutThePassword(t *testing.T) {
	for address, want := range map[string]string{
		"http://u:secret@h":                              "scheme",
		"redis://u:secret@h:x":                           "invalid port",
		"redis://u:secret%@h":                            "invalid",
		"redis://u:secret@h/one":                         "database",
		"redis://u:secret@h?masterset=x":                 `"masterset"`,
		"redis://u:secret@h?ca=x":                        "rediss://",
		"rediss://u:secret@h?ca=/nowhere":                "CA certificates",
		"rediss://u:secret@h?cert=x":                     "both",
		"redis://u@h?password_file=/nowhere":             "password",
		"rediss://u:secret@h?cert=/nowhere&key=/nowhere": "client certificate",
	} {
		_, err := Options(address)
		require.ErrorContains(t, err, want, address)
		require.NotContains(t, err.Error(), "secret", address)
		masked, had := Mask(address)
		require.NotContains(t, masked, "secret", address)
		require.True(t, had || !strings.Contains(address, "secret"), address)
	}
}

// Wherever a password has a character that means something in a URL, a part of it looks like a host, a
// port, a path or a parameter. It is the password, or an error that repeats none of it.
func TestNoPartOfAPasswordIsPrinted(t *testing.T) {
	parts := regexp.MustCompile("qQ1|jJ7|4711")
	for _, password := range []string{
		"qQ1/jJ7", "qQ1?jJ7", "qQ1#jJ7", "qQ1@jJ7", "qQ1:jJ7", "qQ1%zzjJ7", "qQ1%jJ7", "qQ1 jJ7", "qQ1\\jJ7", "qQ1[jJ7",
		"qQ1]jJ7", "qQ1&jJ7", "qQ1;jJ7", "qQ1=jJ7", "qQ1,jJ7", "qQ1://jJ7", "qQ1\njJ7", "qQ1\"jJ7", "4711/jJ7", "4711/4711",
		"4711?jJ7", "4711?db=jJ7", "4711?jJ7=1", "4711?dial_timeout=jJ7", "4711#jJ7", "qQ1@4711/jJ7", "qQ1@jJ7/4711",
		"qQ1@jJ7?4711=1", "@qQ1", "/qQ1", "[::1]:4711/jJ7",
	} {
		for _, before := range []string{
			"redis://:", "rediss://user:", "user:", ":", "unix://user:", "redis://h?master_set=m&sentinel_password=",
		} {
			after := map[bool]string{false: "@h:6379,i/2", true: ""}[strings.Contains(before, "?")]
			address := before + password + after
			o, err := Options(address)
			if err != nil {
				require.NotRegexp(t, parts, err.Error(), address)
			} else {
				require.Equal(t, password, o.Password+o.Sentinel.Password, address)
				split := strings.ContainsAny(password, "/?#") && after != ""
				require.False(t, split, "a part of the password is the host's: %s", address)
			}
			masked, had := Mask(address)
			require.True(t, had, address)
			require.NotRegexp(t, parts, masked, address)
		}
	}
}
