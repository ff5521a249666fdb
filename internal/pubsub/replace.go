package pubsub

import (
	"time"

	"github.com/relock-go/relock/internal/timing"
)

// replacement is the link in use and its way to the next one, which subscribes all channels
// beside the link in use, takes its place, and subscribes what has come meanwhile; then the
// old link is closed. A message may be heard on both. Only the connection's goroutine uses it.
type replacement struct {
	conn *connection
	link *link // in use
	old  *link // replaced, to be closed

	probes *time.Timer // fires when link is to be probed

	silent  bool          // link does not answer
	next    chan *link    // yields the next link, nil if it failed; nil if none is being opened
	after   time.Time     // earliest next attempt
	backoff time.Duration // between two attempts
}

// step subscribes new channels, and then handles one event.
func (r *replacement) step() error {
	c := r.conn
	if !r.silent {
		if err := c.subscribeUnsent(r.link); err != nil {
			return err
		}
		r.closeOld()
	}
	select {
	case <-c.kick:
	case <-r.probes.C:
		again, err := r.check()
		r.probes.Reset(again)
		return err
	case next := <-r.next:
		r.next = nil
		r.adopt(next)
	case err := <-r.link.lost:
		if err == nil {
			err = errCut
		}
		return err
	case <-c.broker.Ctx.Done():
		return errStopped
	}
	return nil
}

// interval returns when to probe the link again. A call that waits depends on it.
func (r *replacement) interval() time.Duration {
	if r.silent || r.conn.broker.Busy() {
		return probeInterval
	}
	return idleInterval
}

// check probes the link in use, unless a message has proved lately what a probe would. It returns
// when to check again.
func (r *replacement) check() (again time.Duration, err error) {
	c := r.conn
	again = r.interval()
	if left := r.proved(again); left > 0 {
		again = left
	} else if err := c.probe(r.link.conn); err != nil {
		return again, err
	}
	if r.silent {
		r.silent = false
		c.recovered()
	}
	if c.retireIfIdle() {
		return again, errRetired
	}
	if c.outgrown() {
		r.start()
	}
	return again, nil
}

// proved returns for how much of an interval a message still stands for a probe. While there are two
// links, it may have come on both of them, and in a cluster it may be of another lock's node.
func (r *replacement) proved(interval time.Duration) time.Duration {
	b := r.conn.broker
	if r.silent || r.old != nil || r.next != nil || b.Slots != nil {
		return 0
	}
	return time.Duration(r.link.proved.Load() + int64(interval) - b.Clock.Now())
}

// unresponsive handles a link that does not answer.
func (r *replacement) unresponsive() {
	if !r.silent {
		r.silent = true
		r.conn.disconnected(errSilent)
	}
	r.start()
}

// start opens another link in the background, unless one is being opened.
func (r *replacement) start() {
	if r.next != nil || time.Now().Before(r.after) {
		return
	}
	next := make(chan *link, 1)
	r.next = next
	r.conn.broker.Spawn(func() {
		l, err := r.conn.successor()
		if err != nil {
			l = nil
		}
		next <- l
	})
}

// adopt switches to the next link. If that is nil, another attempt follows after a pause.
func (r *replacement) adopt(l *link) {
	if l == nil {
		r.backoff = min(max(2*r.backoff, 20*time.Millisecond), time.Second)
		r.after = time.Now().Add(timing.Jitter(r.backoff))
		return
	}
	r.closeOld()
	r.old, r.link, r.silent, r.backoff = r.link, l, false, 0
	r.conn.switchTo(l)
}

// closeOld closes the replaced link.
func (r *replacement) closeOld() {
	if r.old != nil {
		r.conn.broker.Spawn(r.old.close)
		r.old = nil
	}
}

// end closes all links when the connection gives up the one in use because of err.
func (r *replacement) end(err error) {
	spawn := r.conn.broker.Spawn
	r.closeOld()
	if isTimeout(err) {
		spawn(r.link.closeDelayed)
	} else {
		spawn(r.link.close)
	}
	if next := r.next; next != nil {
		spawn(func() {
			if l := <-next; l != nil {
				l.close()
			}
		})
	}
}
