package arbiter_test

import "slices"

// rwRedis is what Redis knows of one lock, and refuses at random what it may grant.
type rwRedis struct {
	writer  *rwLease
	readers map[*rwLease]bool
}

// expire removes what has ended from Redis, a little later than its holder was certain.
func (m *rwModel) expire() {
	now := m.sessions[0].clock.Load()
	if w := m.redis.writer; w != nil && now > w.until.Load() {
		m.redis.writer = nil
	}
	for l := range m.redis.readers {
		if now > l.until.Load() {
			delete(m.redis.readers, l)
		}
	}
}

// execute: Redis executes what a call has sent.
func (m *rwModel) execute(c *rwStep) {
	c.at, c.reply = rwReplied, rwRefused
	m.expire()
	redis := &m.redis
	own := c.st.Writes && redis.writer == c.st.Write && redis.writer != nil
	switch {
	case c.st.Confirm && !redis.readers[c.lease]:
		c.reply = rwGone
	case !m.kind && m.chance(3) || redis.writer != nil && !(own && !c.st.Confirm):
	case c.side == writeSide:
		if len(redis.readers) == 0 {
			redis.writer, c.reply = c.lease, rwGranted
		}
	default:
		redis.readers[c.lease], c.reply = true, rwGranted
		if m.chance(2) {
			c.reply = rwAlone
		}
	}
}

// release: Redis executes a release, and its sender gets to know.
func (m *rwModel) release(s *rwSession, l *rwLease) {
	s.ending = slices.DeleteFunc(s.ending, func(e *rwLease) bool { return e == l })
	delete(m.redis.readers, l)
	if m.redis.writer == l {
		m.redis.writer = nil
	}
	s.Released("a", l)
}

// force opens the lock, and tells everybody. A grant that is on its way would not
// hear of it.
func (m *rwModel) force() {
	for _, s := range m.sessions {
		for _, c := range s.calls {
			if c.at == rwReplied {
				return
			}
		}
	}
	m.redis = rwRedis{readers: make(map[*rwLease]bool)}
	for _, s := range m.sessions {
		for _, l := range s.Leases("a") {
			s.Lose("a", l)
		}
	}
}
