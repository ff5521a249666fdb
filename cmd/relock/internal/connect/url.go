package connect

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Default is the address if none is given.
const Default = "redis://localhost:6379"

const defaultPort = "6379"

// known are the parameters of an address. ignored are those that go-redis and rueidis know besides, and
// that mean nothing for one command.
var (
	known = []string{
		"addr", "db", "dial_timeout", "read_timeout", "write_timeout", "conn_max_lifetime", "protocol", "skip_verify",
		"client_name", "username", "password", "password_file", "master_set", "sentinel_user", "sentinel_password",
		"sentinel_password_file", "ca", "cert", "key", "server_name",
	}
	ignored = []string{
		"client_cache", "conn_max_idle_time", "conn_max_lifetime_jitter", "context_timeout_enabled", "dialer_retries",
		"dialer_retry_timeout", "disableIdentity", "failing_timeout_seconds", "identitySuffix", "idle_timeout",
		"max_active_conns", "max_concurrent_dials", "max_idle_conns", "max_redirects", "max_retries", "max_retry_backoff",
		"min_idle_conns", "min_retry_backoff", "pipeline_pool_size", "pipeline_read_buffer_size",
		"pipeline_write_buffer_size", "pool_fifo", "pool_size", "pool_timeout", "read_only", "route_by_latency",
		"route_by_latency_tolerance", "route_randomly", "unstable_resp3", "use_disconnected_replicas",
	}
	synonyms = []string{"master_name", "max_conn_age"}   // of go-redis: master_set, conn_max_lifetime
	secrets  = []string{"password", "sentinel_password"} // parameters whose values are never printed
)

var (
	schemes = []string{"redis", "rediss", "unix", "valkey", "valkeys"}
	secured = []string{"rediss", "valkeys"}
)

// An endpoint is an address, taken to pieces.
type endpoint struct {
	*url.URL // without the further hosts, the path as it is needed
	hosts    []string
	q        url.Values
}

// parse reads an address, in which the scheme may be missing and hosts may be separated by
// commas.
func parse(address string) (*endpoint, error) {
	address = strings.TrimSpace(address)
	switch {
	case strings.HasPrefix(address, "/"): // a socket, as go-redis has it
		address = "unix://" + address
	case strings.HasPrefix(address, "unix:/") && !strings.HasPrefix(address, "unix://"):
		address = "unix://" + address[len("unix:"):]
	case !strings.Contains(address, "://"):
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
	u, err := url.Parse(scheme + "://" + authority[:at] + rest)
	if err != nil {
		return nil, mistake(err)
	}
	e := &endpoint{URL: u}
	if e.q, err = url.ParseQuery(u.RawQuery); err != nil {
		return nil, mistake(err)
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	if u.Scheme == "unix" {
		if authority[at:] != "" || u.Path == "" {
			return nil, mistake(errors.New("the path of a socket begins with a slash, as in unix:///path/to/socket"))
		}
		e.hosts = []string{strings.TrimSpace(u.Path)}
		return e, nil
	}
	if u.Path = strings.Trim(u.Path, "/"); u.Path != "" {
		u.Path = "/" + u.Path
	}
	for _, host := range append(strings.Split(authority[at:], ","), e.q["addr"]...) {
		host, err := withPort(host)
		if err != nil {
			return nil, mistake(err)
		}
		e.hosts = append(e.hosts, host)
	}
	u.Host, e.q["addr"] = e.hosts[0], e.hosts[1:]
	u.RawQuery = e.q.Encode()
	return e, nil
}

// check finds parameters that nobody knows.
func (e *endpoint) check() error {
	hide := slices.ContainsFunc(secrets, e.q.Has) // of which an unknown one may be a part
	for name := range e.q {
		if slices.Contains(slices.Concat(known, ignored, synonyms), name) {
			continue
		}
		what := fmt.Sprintf("a parameter %q", name)
		if hide {
			what = "an unknown parameter"
		}
		return fmt.Errorf("the address has %s; known are %s, and those of go-redis", what, strings.Join(known, ", "))
	}
	return nil
}

// withPort returns a host and its port. An IPv6 address needs brackets only before a port.
func withPort(text string) (string, error) {
	if plain, err := url.PathUnescape(text); err == nil { // else it has a zone: fe80::1%eth0
		text = plain
	}
	var host, port string
	inside, bracket := strings.CutPrefix(text, "[")
	switch {
	case bracket:
		host, port, _ = strings.Cut(inside, "]")
		port = strings.TrimPrefix(port, ":")
	case strings.Count(text, ":") > 1:
		host, bracket = text, true
	default:
		host, port, _ = strings.Cut(text, ":")
	}
	if _, err := netip.ParseAddr(host); bracket && err != nil || strings.ContainsAny(host, " \"<>[]\\^`{|}") {
		return "", errors.New("a host is neither a name nor an IP address")
	}
	port = cmp.Or(port, defaultPort)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", errors.New("invalid port")
	}
	return net.JoinHostPort(cmp.Or(host, "localhost"), port), nil
}

// Options returns the options of a client for an address:
//
//	redis://[user:password@]host[:port][,host[:port]…][/database][?parameter=value&…]
//
// The schemes are redis, rediss (TLS) and unix. The package's README lists the parameters.
func Options(address string) (rueidis.ClientOption, error) {
	e, err := parse(address)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	o := rueidis.ClientOption{
		InitAddress: e.hosts,
		AlwaysRESP2: e.q.Get("protocol") == "2",
		ClientName:  e.q.Get("client_name"),
		// relock caches nothing, and an ACL need not allow what only describes the client.
		DisableCache:  true,
		ClientSetInfo: rueidis.DisableClientSetInfo,
	}
	database := strings.TrimPrefix(e.Path, "/")
	if e.Scheme == "unix" {
		database = ""
	}
	if database = cmp.Or(e.q.Get("db"), database); database != "" {
		if o.SelectDB, err = strconv.Atoi(database); err != nil {
			return o, mistake(errors.New("the database is not a number"))
		}
	}
	if err := e.patience(&o); err != nil {
		return o, err
	}
	o.Sentinel.MasterSet = cmp.Or(e.q.Get("master_set"), e.q.Get("master_name"))
	return o, e.connections(&o)
}

// What a client must notice by itself.
const (
	answerWithin  = 2 * time.Second // else a connection is closed: the balancer on its way may have forgotten it
	keepAlive     = time.Second     // so often an idle connection is probed
	topologyEvery = 5 * time.Second // the message of a failover may have been missed
)

// Settings says which options that matter for locks the client of an address has, in words for people.
func Settings(address string, mode rueidis.ClientMode) (string, error) {
	o, err := Options(address)
	life := "none"
	if o.ConnLifetime > 0 {
		life = o.ConnLifetime.String()
	}
	text := fmt.Sprintf("ConnWriteTimeout %v, Dialer.KeepAlive %v, ConnLifetime %v",
		o.ConnWriteTimeout, o.Dialer.KeepAlive, life)
	switch mode {
	case rueidis.ClientModeSentinel:
		text += fmt.Sprintf(", Sentinel.TopologyRefreshInterval %v", o.Sentinel.TopologyRefreshInterval)
	case rueidis.ClientModeCluster:
		text += fmt.Sprintf(", ClusterOption.ShardsRefreshInterval %v", o.ClusterOption.ShardsRefreshInterval)
	}
	return text, err
}

// patience sets how soon the client notices that something is not there any more.
func (e *endpoint) patience(o *rueidis.ClientOption) error {
	read, bad1 := e.duration("read_timeout")
	write, bad2 := e.duration("write_timeout")
	dial, bad3 := e.duration("dial_timeout")
	life, bad4 := e.duration("conn_max_lifetime")
	if life == 0 && bad4 == nil {
		life, bad4 = e.duration("max_conn_age")
	}
	o.ConnWriteTimeout = cmp.Or(max(read, write), answerWithin)
	o.ConnLifetime = life
	o.Dialer = net.Dialer{Timeout: dial, KeepAlive: keepAlive}
	o.Sentinel.Dialer = o.Dialer
	o.Sentinel.TopologyRefreshInterval = topologyEvery
	o.ClusterOption.ShardsRefreshInterval = topologyEvery
	return cmp.Or(bad1, bad2, bad3, bad4)
}

// duration returns a parameter, 0 if there is none. A number without a unit is of seconds, as in go-redis.
func (e *endpoint) duration(name string) (time.Duration, error) {
	text := e.q.Get(name)
	if text == "" {
		return 0, nil
	}
	if _, err := strconv.Atoi(text); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, mistake(fmt.Errorf("%s is not a duration", name))
	}
	return max(d, 0), nil
}

// mistake says what is wrong with an address, and repeats nothing of the address: wherever a password
// has a character that should be escaped, parts of it look like hosts, ports, paths or parameters.
func mistake(err error) error {
	var wrong *url.Error
	if errors.As(err, &wrong) {
		err = wrong.Err
	}
	text := strings.TrimPrefix(err.Error(), "net/url: ")
	text, _, _ = strings.Cut(text, `"`)
	text, _, _ = strings.Cut(text, ": ")
	return fmt.Errorf("the address is not a URL of Redis: %s; write / ? # @ and %% in a password, and # @ and %% "+
		"in a parameter, as %%2F %%3F %%23 %%40 and %%25", strings.TrimSpace(text))
}

// Mask returns an address without its passwords, and whether it had any.
func Mask(address string) (masked string, had bool) {
	e, err := parse(address)
	if err != nil {
		return "(not a URL)", true
	}
	const mask = "xxxxx"
	if _, had = e.User.Password(); had {
		e.User = url.UserPassword(e.User.Username(), mask)
	}
	for _, name := range secrets {
		if e.q.Has(name) {
			had = true
			e.q.Set(name, mask)
			e.RawQuery = e.q.Encode()
		}
	}
	return e.String(), had
}
