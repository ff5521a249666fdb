package locks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// Step is how many keys one step of a scan looks at, or a little more: the server serves nobody
// else for that long, less than a millisecond.
const Step = 500

// sample is how many fields of a hash are read to tell whether it is a lock.
const sample = 10

// A Scan looks through all keys of the deployment for locks, step by step. While it goes on, a
// lock may be seen twice; one that is held throughout is seen.
type Scan struct {
	client  rueidis.Client
	prefix  string
	pattern string           // of keys; "" matches all
	nodes   []rueidis.Client // the primaries that are left; the first is being scanned
	second  bool             // for sorted sets, after its hashes
	cursor  uint64
}

// NewScan begins a scan for names that match a pattern as SCAN knows it; "" matches all. Only keys that start with
// prefix are looked at, and names are without it.
func NewScan(ctx context.Context, c rueidis.Client, prefix, pattern string) (*Scan, error) {
	nodes, err := Primaries(ctx, c)
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		pattern = Exactly(prefix) + cmp.Or(pattern, "*")
	}
	s := &Scan{client: c, prefix: prefix, pattern: pattern}
	for _, n := range nodes {
		s.nodes = append(s.nodes, n.Client)
	}
	return s, nil
}

// Done reports whether the scan has seen all keys.
func (s *Scan) Done() bool { return len(s.nodes) == 0 }

// Next makes one step, and returns the names of the locks that it found.
func (s *Scan) Next(ctx context.Context) ([]string, error) {
	if s.Done() {
		return nil, nil
	}
	node := s.nodes[0]
	b := node.B().Arbitrary("SCAN", fmt.Sprint(s.cursor))
	if s.pattern != "" {
		b = b.Args("MATCH", s.pattern)
	}
	kind, found := "hash", s.locks
	if s.second {
		kind, found = "zset", s.semaphores
	}
	entry, err := node.Do(ctx, b.Args("COUNT", fmt.Sprint(Step), "TYPE", kind).Build()).AsScanEntry()
	if err != nil {
		return nil, fmt.Errorf("looking for locks: %w", err)
	}
	if s.cursor = entry.Cursor; s.cursor == 0 {
		if s.second {
			s.nodes = s.nodes[1:]
		}
		s.second = !s.second
	}
	return found(ctx, entry.Elements)
}

// semaphores returns those of the sorted sets that are semaphores (lua/permits.lua).
func (s *Scan) semaphores(ctx context.Context, keys []string) ([]string, error) {
	looks := make(rueidis.Commands, len(keys))
	for i, k := range keys {
		looks[i] = s.client.B().Zscore().Key(k).Member("permits").Build()
	}
	var found []string
	for i, reply := range s.client.DoMulti(ctx, looks...) {
		limit, err := reply.AsFloat64()
		if _, refused := rueidis.IsRedisErr(err); err != nil && !refused && !rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("looking for locks: %w", err)
		}
		if err == nil && limit < 0 {
			found = append(found, strings.TrimPrefix(keys[i], s.prefix))
		}
	}
	return found, nil
}

// locks returns those of the hashes that are locks.
func (s *Scan) locks(ctx context.Context, keys []string) ([]string, error) {
	looks := make(rueidis.Commands, len(keys))
	for i, k := range keys {
		looks[i] = s.client.B().Hscan().Key(k).Cursor(0).Count(sample).Build()
	}
	var found []string
	for i, reply := range s.client.DoMulti(ctx, looks...) {
		entry, err := reply.AsScanEntry()
		if _, refused := rueidis.IsRedisErr(err); refused {
			continue // gone, something else by now, or not this user's
		}
		if err != nil {
			return nil, fmt.Errorf("looking for locks: %w", err)
		}
		if isLock(entry.Elements) {
			found = append(found, strings.TrimPrefix(keys[i], s.prefix))
		}
	}
	return found, nil
}

// Exactly returns a pattern of SCAN that matches a text and nothing else.
func Exactly(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// All returns the names of all locks that match a pattern, in order; see [NewScan].
func All(ctx context.Context, c rueidis.Client, prefix, pattern string) ([]string, error) {
	s, err := NewScan(ctx, c, prefix, pattern)
	if err != nil {
		return nil, err
	}
	var names []string
	for !s.Done() {
		found, err := s.Next(ctx)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// A Node is one server of a deployment.
type Node struct {
	Address string
	Client  rueidis.Client
}

// Primaries returns the primaries of a deployment, in order of their addresses.
func Primaries(ctx context.Context, c rueidis.Client) ([]Node, error) {
	all := c.Nodes()
	var nodes []Node
	for address, n := range all {
		if len(all) > 1 {
			role, err := n.Do(ctx, n.B().Role().Build()).ToArray()
			if err == nil && len(role) > 0 {
				if name, _ := role[0].ToString(); name != "master" {
					continue
				}
			}
		}
		nodes = append(nodes, Node{address, n})
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("none of the %d servers is a primary", len(all))
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Address, b.Address) })
	return nodes, nil
}
