package connect

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// Default is the address if none is given.
const Default = "redis://localhost:6379"

// known are the parameters of an address: rueidis' own that make sense here, and ours.
var known = []string{
	"addr", "db", "dial_timeout", "write_timeout", "skip_verify", "client_name", "master_set",
	"sentinel_user", "sentinel_password", "sentinel_password_file", "password_file", "ca", "cert", "key", "server_name",
}

var schemes = []string{"redis", "rediss", "unix", "valkey", "valkeys"}

// Options returns the options of a client for an address:
//
//	redis://[user:password@]host[:port][,host[:port]…][/database][?parameter=value&…]
//
// The schemes are redis, rediss (TLS) and unix. The package's README lists the parameters.
func Options(address string) (rueidis.ClientOption, error) {
	u, err := parse(address)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	q := u.Query()
	o, err := rueidis.ParseURL(u.String())
	if err != nil {
		return o, mistake(err)
	}
	if o.Password, err = secret(o.Password, q.Get("password_file")); err != nil {
		return o, err
	}
	o.Sentinel.Username = q.Get("sentinel_user")
	if o.Sentinel.Password, err = secret(q.Get("sentinel_password"), q.Get("sentinel_password_file")); err != nil {
		return o, err
	}
	if err := secure(&o, q); err != nil {
		return o, err
	}
	if u.Scheme != "unix" {
		o.DialCtxFn = dial
	}
	// relock caches nothing, and an ACL need not allow what only describes the client.
	o.DisableCache = true
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	return o, nil
}

// parse reads an address, in which the scheme may be missing and hosts may be separated by
// commas.
func parse(address string) (*url.URL, error) {
	address = strings.TrimSpace(address)
	if !strings.Contains(address, "://") {
		address = "redis://" + address
	}
	scheme, rest, _ := strings.Cut(address, "://")
	if !slices.Contains(schemes, strings.ToLower(scheme)) {
		return nil, mistake(errors.New("its scheme is none of redis, rediss and unix"))
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	if strings.ContainsAny(rest, "@#") { // what came before may be a part of a password
		return nil, mistake(errors.New("there is @ or # behind the host"))
	}
	at := strings.LastIndex(authority, "@") + 1
	hosts := strings.Split(authority[at:], ",")
	u, err := url.Parse(scheme + "://" + authority[:at] + hosts[0] + rest)
	if err != nil {
		return nil, mistake(err)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, mistake(err)
	}
	for name := range q {
		if slices.Contains(known, name) {
			continue
		}
		what := fmt.Sprintf("a parameter %q", name)
		if q.Has("sentinel_password") { // of which this may be a part
			what = "an unknown parameter"
		}
		return nil, fmt.Errorf("the address has %s; known are %s", what, strings.Join(known, ", "))
	}
	if u.Scheme == "unix" {
		return u, nil
	}
	more := append(hosts[1:], q["addr"]...)
	q.Del("addr")
	for _, host := range more {
		if _, _, err := net.SplitHostPort(host); err != nil { // rueidis takes it for the first one
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		}
		q.Add("addr", host)
	}
	u.RawQuery = q.Encode()
	return u, nil
}

// mistake says what is wrong with an address, and repeats nothing of the address: wherever a password
// has a character that should be escaped, parts of it look like hosts, ports, paths or parameters.
func mistake(err error) error {
	var wrong *url.Error
	if errors.As(err, &wrong) {
		err = wrong.Err
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "redis: "), "net/url: ")
	text, _, _ = strings.Cut(text, `"`)
	text, _, _ = strings.Cut(text, ": ")
	return fmt.Errorf("the address is not a URL of Redis: %s; write / ? # @ and %% in a password, and # @ and %% "+
		"in a parameter, as %%2F %%3F %%23 %%40 and %%25", strings.TrimSpace(text))
}

// secret returns the password, from a file if one is given.
func secret(password, file string) (string, error) {
	if file == "" {
		return password, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// Mask returns an address without its passwords, and whether it had any.
func Mask(address string) (masked string, had bool) {
	u, err := parse(address)
	if err != nil {
		return "(not a URL)", true
	}
	if _, had = u.User.Password(); had {
		u.User = url.UserPassword(u.User.Username(), "xxxxx")
	}
	if q := u.Query(); q.Has("sentinel_password") {
		had = true
		q.Set("sentinel_password", "xxxxx")
		u.RawQuery = q.Encode()
	}
	return u.String(), had
}
