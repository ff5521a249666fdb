package connect

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		got := want{
			strings.Join(o.InitAddress, " "), o.Username, o.Password, o.SelectDB, o.TLSConfig != nil, o.Sentinel.MasterSet, o.Sentinel.Password,
		}
		if !reflect.DeepEqual(got, w) {
			t.Errorf("%s: %+v, want %+v", address, got, w)
		}
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
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
		if masked, had := Mask(address); strings.Contains(masked, "secret") || !had && strings.Contains(address, "secret") {
			t.Errorf("%s: masked %s", address, masked)
		}
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
			got := o.Password
			if after == "" {
				got = o.Sentinel.Password
			}
			if err == nil && got != password || err != nil && parts.MatchString(err.Error()) {
				t.Errorf("%s: password %q, %v", address, got, err)
			}
			if masked, had := Mask(address); !had || parts.MatchString(masked) {
				t.Errorf("%s: masked %s, %v", address, masked, had)
			}
			if err == nil && strings.ContainsAny(password, "/?#") && after != "" {
				t.Errorf("%s: a part of the password is the host's", address)
			}
		}
	}
}
