package spec

import "fmt"

// A Redlock over three servers, and its tokens. After a majority has granted the lock, T is the
// largest of their tokens. It is written to a majority of the servers where the hold is, by a script
// that finds it there; then the lock is held. Requests to different servers are executed in any
// order, or not at all. The servers' clocks have nothing in common: each issues the next number
// after the last one that it knows, and they begin far apart.

// A Redlock is a state of three servers and their clients. Time is what is left of a lease, in
// steps.
type Redlock struct {
	*RedRules
	Servers [3]RedServer
	Clients []RedClient
	Freezes int  // that may still happen
	Downs   int  // servers that may fall silent
	Wipes   int  // losses of all data of a server
	Best    int8 // the largest token of a hold so far
	Lossy   bool // data was lost: holds may overlap
	Why     string
	why     string
}

// RedRules are the same in all states.
type RedRules struct {
	Rounds int // of each client; each has its hold id
	Bug    Bug
	told   bool
}

// A RedServer has a lock, which is a Mutex to it.
type RedServer struct {
	Hold  int8 // a hold id; 0: nobody
	Left  int8
	Fence int8 // the last token
	Down  bool
}

// RedStage is where a client is: round of internal/quorum/round.go.
type RedStage int8

// The stages of a client.
const (
	RedIdle    RedStage = iota
	RedAsking           // all servers are asked: take, try of internal/quorum/hold.go
	RedRaising          // T is written: raise of internal/quorum/hold.go
	RedHeld
	RedOver
)

// A RedClient acquires the lock, some times in a row.
type RedClient struct {
	Stage     RedStage
	Round     int8
	Share     [3]int8 // for how long what it has on each server is valid; 0: nothing
	Asked     [3]bool
	Confirmed [3]bool // the server has T
	Age       int8    // what is left of a lease that began with the round
	Top       int8    // T: choose of internal/quorum/hold.go
	Frozen    bool
	Fresh     bool // renewed in this step of time
}

const redLease = 3

// NewRedlock returns a world of some clients.
func NewRedlock(clients, rounds int) *Redlock {
	w := &Redlock{RedRules: &RedRules{Rounds: rounds}, Clients: make([]RedClient, clients)}
	for i := range w.Servers {
		w.Servers[i].Fence = int8(3 * i)
	}
	return w
}

func (w *Redlock) id(c int) int8 { return int8(c*w.Rounds) + w.Clients[c].Round + 1 }

func (c *RedClient) shares() (n int) {
	for _, left := range c.Share {
		if left > 0 {
			n++
		}
	}
	return n
}

func (c *RedClient) confirms() (n int) {
	for _, is := range c.Confirmed {
		if is {
			n++
		}
	}
	return n
}

// valid reports whether a majority is: assess of internal/quorum/hold.go.
func (c *RedClient) valid() bool { return c.Stage == RedHeld && c.shares() >= 2 }

// due reports whether time must wait for a client.
func (c *RedClient) due() bool {
	return !c.Frozen && (c.Stage == RedAsking || c.Stage == RedRaising ||
		c.Stage == RedHeld && (!c.Fresh || c.shares() < 2))
}

// Next visits each state that may follow.
func (w *Redlock) Next(visit func(*Redlock)) {
	do := func(change func(n *Redlock), what string, args ...any) {
		n := w.clone()
		if w.told {
			n.why = fmt.Sprintf(what, args...)
		}
		change(n)
		valid := 0
		for i := range n.Clients {
			if n.Clients[i].valid() {
				valid++
			}
		}
		if valid > 1 && !n.Lossy {
			n.Why = "valid holds never overlap"
		}
		visit(n)
	}
	due := false
	for i := range w.Clients {
		due = due || w.Clients[i].due()
		w.nextOfClient(i, do)
	}
	if !due {
		do((*Redlock).tick, "a step of time")
	}
	for _, i := range []int{0, 2} {
		if w.Servers[i].Left == 1 {
			do(func(n *Redlock) {
				n.Servers[i].Hold, n.Servers[i].Left = 0, 0
			}, "clocks drift: a lease ends on server %d", i)
		}
	}
	if w.Freezes > 0 && !w.Clients[0].Frozen {
		do(func(n *Redlock) {
			n.Freezes--
			n.Clients[0].Frozen = true
		}, "client 0 freezes")
	}
	if w.Clients[0].Frozen {
		do(func(n *Redlock) { n.Clients[0].Frozen = false }, "client 0 goes on")
	}
	for _, i := range []int{1, 2} {
		if w.Downs > 0 && !w.Servers[i].Down {
			do(func(n *Redlock) {
				n.Downs--
				n.Servers[i].Down = true
			}, "server %d falls silent", i)
		}
		if w.Wipes > 0 {
			do(func(n *Redlock) {
				n.Wipes--
				n.Lossy = true
				n.Servers[i] = RedServer{Fence: int8(3 * i), Down: n.Servers[i].Down}
			}, "server %d loses its data", i)
		}
	}
}

type redDoes = func(change func(n *Redlock), what string, args ...any)

// nextOfClient does what a client may do.
func (w *Redlock) nextOfClient(i int, do redDoes) {
	c, id := &w.Clients[i], w.id(i)
	if c.Frozen {
		return
	}
	if c.Stage == RedIdle {
		do(func(n *Redlock) {
			n.Clients[i].Stage, n.Clients[i].Age = RedAsking, redLease-1
		}, "client %d begins a round", i)
	}
	for s := range w.Servers {
		server := &w.Servers[s]
		if server.Down {
			continue
		}
		switch {
		case c.Stage == RedAsking && !c.Asked[s] && c.Age > 0:
			do(func(n *Redlock) { n.ask(i, s) }, "client %d asks server %d", i, s)
		case c.Stage == RedRaising && c.Share[s] > 0 && !c.Confirmed[s]:
			do(func(n *Redlock) { n.raise(i, s) }, "client %d writes T = %d to server %d", i, c.Top, s)
		case c.valid() && c.Share[s] == 0 && server.Hold == 0:
			do(func(n *Redlock) { n.repair(i, s) }, "client %d repairs its share of server %d", i, s)
		}
	}
	enough := 2
	switch w.Bug {
	case RedlockTokenNotWritten:
		enough = 0
	case RedlockTokenOnOne:
		enough = 1
	}
	inTime := c.shares() >= 2 && c.Age > 0 || w.Bug == RedlockTokenLate
	switch {
	case c.Stage == RedAsking:
		if c.shares() >= 2 {
			do(func(n *Redlock) { n.Clients[i].Stage = RedRaising }, "client %d has a majority", i)
		}
	case c.Stage == RedRaising && c.confirms() >= enough && inTime:
		do(func(n *Redlock) {
			if n.Clients[i].Stage = RedHeld; c.Top <= n.Best {
				n.Why = "tokens grow"
			}
			n.Best = c.Top
		}, "client %d holds the lock with token %d", i, c.Top)
	case c.Stage == RedHeld && !c.Fresh && c.shares() >= 2:
		do(func(n *Redlock) {
			n.Clients[i].Fresh = true
			for s := range n.Servers {
				n.renew(i, s)
			}
		}, "client %d renews", i)
	}
	if c.Stage != RedIdle && c.Stage != RedOver { // a failure, Unlock, or a loss
		do(func(n *Redlock) { n.drop(i, id) }, "client %d releases", i)
	}
}

// ask is mutex_acquire.lua on one server. A client that is frozen reads the reply later.
func (w *Redlock) ask(i, s int) {
	c, server := &w.Clients[i], &w.Servers[s]
	c.Asked[s] = true
	if server.Hold == 0 {
		server.Hold, server.Left = w.id(i), redLease
		server.Fence++ // issue of token.lua
		c.Share[s], c.Top = c.Age, max(c.Top, server.Fence)
	}
}

// raise is raise.lua on one server, which raises the fence where it finds the hold.
func (w *Redlock) raise(i, s int) {
	c, server := &w.Clients[i], &w.Servers[s]
	if server.Hold != w.id(i) {
		c.Share[s] = 0
		return
	}
	server.Fence, c.Confirmed[s] = max(server.Fence, c.Top), true
}

// repair is repairParts of internal/quorum/hold.go: a share that is missing is asked for again, and
// gets the token.
func (w *Redlock) repair(i, s int) {
	c, server := &w.Clients[i], &w.Servers[s]
	server.Hold, server.Left, server.Fence = w.id(i), redLease, max(server.Fence+1, c.Top)
	c.Share[s] = redLease - 1
}

// renew is renew.lua on one server. The local deadline has a margin for the drift of clocks.
func (w *Redlock) renew(i, s int) {
	c, server := &w.Clients[i], &w.Servers[s]
	switch {
	case c.Share[s] == 0 || server.Down:
	case server.Hold == w.id(i):
		server.Left, c.Share[s] = redLease, redLease-1
	default:
		c.Share[s] = 0
	}
}

// drop is drop of internal/quorum/hold.go; what a server does not hear of expires.
func (w *Redlock) drop(i int, id int8) {
	for s := range w.Servers {
		if server := &w.Servers[s]; server.Hold == id && !server.Down {
			server.Hold, server.Left = 0, 0
		}
	}
	c := &w.Clients[i]
	*c = RedClient{Round: c.Round + 1, Fresh: c.Fresh}
	if int(c.Round) == w.Rounds {
		*c = RedClient{Stage: RedOver}
	}
}

// tick is a step of time.
func (w *Redlock) tick() {
	for s := range w.Servers {
		if server := &w.Servers[s]; server.Left > 0 {
			if server.Left--; server.Left == 0 {
				server.Hold = 0
			}
		}
	}
	for i := range w.Clients {
		c := &w.Clients[i]
		for s := range c.Share {
			c.Share[s] = max(c.Share[s]-1, 0)
		}
		c.Age, c.Fresh = max(c.Age-1, 0), false
	}
}

func (w *Redlock) clone() *Redlock {
	n := *w
	n.Clients = append([]RedClient(nil), w.Clients...)
	return &n
}

func (w *Redlock) normalize() {}

func (w *Redlock) key(b []byte) []byte {
	bit := func(is bool) byte {
		if is {
			return 1
		}
		return 0
	}
	for _, s := range w.Servers {
		b = append(b, byte(s.Hold), byte(s.Left), byte(s.Fence), bit(s.Down))
	}
	for _, c := range w.Clients {
		b = append(b, byte(c.Stage), byte(c.Round), byte(c.Age), byte(c.Top), bit(c.Frozen), bit(c.Fresh))
		for s := range c.Share {
			b = append(b, byte(c.Share[s]), bit(c.Asked[s]), bit(c.Confirmed[s]))
		}
	}
	return append(b, byte(w.Freezes), byte(w.Downs), byte(w.Wipes), byte(w.Best))
}

func (w *Redlock) wrong() string { return w.Why }
func (w *Redlock) step() string  { return w.why }
func (w *Redlock) waited() int   { return 0 }

func (w *Redlock) telling() *Redlock {
	n, rules := w.clone(), *w.RedRules
	rules.told = true
	n.RedRules = &rules
	return n
}
