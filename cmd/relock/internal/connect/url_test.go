package connect

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
		own, theirs := logins(t, o)
		require.Equal(t, w, want{
			strings.Join(o.InitAddress, " "), own.Username, own.Password, o.SelectDB, o.TLSConfig != nil,
			o.Sentinel.MasterSet, theirs.Password,
		}, address)
	}
}

// logins returns what a client says of its user to servers and to sentinels.
func logins(t testing.TB, o rueidis.ClientOption) (own, sentinels rueidis.AuthCredentials) {
	t.Helper()
	own, err := o.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
	require.NoError(t, err)
	sentinels, err = o.AuthCredentialsFn(rueidis.AuthCredentialsContext{Address: sentinelAddr{}})
	require.NoError(t, err)
	return own, sentinels
}

// What go-redis and redis-cli take is taken.
func TestAddressesOfOthersAreTaken(t *testing.T) {
	for address, want := range map[string]string{
		"redis://h:6379/":                   "h:6379 0",
		"redis://h/?db=2":                   "h:6379 2",
		"redis://h//3/":                     "h:6379 3",
		"redis://h:6379/0?db=":              "h:6379 0",
		"REDIS://h":                         "h:6379 0",
		"redis://:7000":                     "localhost:7000 0",
		"redis://":                          "localhost:6379 0",
		"::1":                               "[::1]:6379 0",
		"fe80::1":                           "[fe80::1]:6379 0",
		"[fe80::1]":                         "[fe80::1]:6379 0",
		"redis://[fe80::1%25eth0]:7000/4":   "[fe80::1%eth0]:7000 4",
		"fe80::1%eth0":                      "[fe80::1%eth0]:6379 0",
		"redis://me:p@::1/2":                "[::1]:6379 2",
		"::1,::2":                           "[::1]:6379 [::2]:6379 0",
		"h?addr=::1":                        "h:6379 [::1]:6379 0",
		"/run/redis.sock":                   "/run/redis.sock 0",
		"unix:/run/redis.sock":              "/run/redis.sock 0",
		"unix://me:p@/run/redis.sock?db=1":  "/run/redis.sock 1",
		"h?pool_size=10&max_retries=3":      "h:6379 0",
		"h?read_timeout=3s&pool_timeout=-1": "h:6379 0",
	} {
		o, err := Options(address)
		require.NoError(t, err, address)
		require.Equal(t, want, fmt.Sprint(strings.Join(o.InitAddress, " "), " ", o.SelectDB), address)
		masked, _ := Mask(address)
		again, err := Options(masked)
		require.NoError(t, err, masked)
		require.Equal(t, o.InitAddress, again.InitAddress, masked)
	}
	o, err := Options("redis://s:sentinels@h?master_name=m&username=u&password=servers&max_conn_age=60&dial_timeout=3&protocol=2")
	require.NoError(t, err)
	own, theirs := logins(t, o)
	require.Equal(t, []string{"u", "servers", "s", "sentinels", "m"},
		[]string{own.Username, own.Password, theirs.Username, theirs.Password, o.Sentinel.MasterSet})
	require.Equal(t, []time.Duration{time.Minute, 3 * time.Second}, []time.Duration{o.ConnLifetime, o.Sentinel.Dialer.Timeout})
	require.True(t, o.AlwaysRESP2)
}

// A client must notice by itself that something is gone, unless the address says how soon.
func TestClientIsImpatient(t *testing.T) {
	for parameters, want := range map[string]time.Duration{
		"": 2 * time.Second, "?write_timeout=9s": 9 * time.Second, "?read_timeout=4&write_timeout=3": 4 * time.Second,
		"?read_timeout=-1": 2 * time.Second,
	} {
		o, err := Options("h" + parameters)
		require.NoError(t, err)
		require.Equal(t, want, o.ConnWriteTimeout, parameters)
		require.Equal(t, 5*time.Second, o.Sentinel.TopologyRefreshInterval)
		require.Equal(t, 5*time.Second, o.ClusterOption.ShardsRefreshInterval)
		require.Equal(t, time.Second, o.Dialer.KeepAlive)
	}
}

func TestMistakesInAddressesAreExplainedWithoutThePassword(t *testing.T) {
	for address, want := range map[string]string{
		"http://u:secret@h":                              "scheme",
		"redis://u:secret@h:x":                           "invalid port",
		"redis://u:secret%@h":                            "invalid",
		"redis://u:secret@h/one":                         "database",
		"redis://u:secret@h/1/2":                         "database",
		"unix://run/redis.sock?password=secret":          "unix:///path",
		"unix://u:secret@run/redis.sock":                 "unix:///path",
		"redis://u:secret@h:1:2":                         "neither a name nor an IP address",
		"redis://u:secret@[h]:1":                         "neither a name nor an IP address",
		"redis://u:secret@h?dial_timeout=x":              "dial_timeout",
		"redis://h?password=secret&replica_only=true":    "an unknown parameter",
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
			"redis://h?password=",
		} {
			after := map[bool]string{false: "@h:6379,i/2", true: ""}[strings.Contains(before, "?")]
			address := before + password + after
			o, err := Options(address)
			if err != nil {
				require.NotRegexp(t, parts, err.Error(), address)
			} else {
				own, theirs := logins(t, o)
				require.Equal(t, password, own.Password+theirs.Password, address)
				split := strings.ContainsAny(password, "/?#") && after != ""
				require.False(t, split, "a part of the password is the host's: %s", address)
			}
			masked, had := Mask(address)
			require.True(t, had, address)
			require.NotRegexp(t, parts, masked, address)
		}
	}
}
