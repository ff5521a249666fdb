package recipes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

// tasks is a board in memory.
type tasks struct {
	mu   sync.Mutex       // protects the following
	done map[string]int64 // the token of each task that is done, 0 if it is open
}

var errStale = errors.New("another worker has finished the task")

func (b *tasks) Open(context.Context) (ids []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, token := range b.done {
		if token == 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (b *tasks) IsOpen(_ context.Context, id string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done[id] == 0, nil
}

func (b *tasks) Finish(_ context.Context, id string, token int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done[id] > token {
		return errStale
	}
	b.done[id] = token
	return nil
}

// Five workers do twenty tasks. One of them is cut off in its first, does not stop, and comes late.
func TestWorkersTakeEachTaskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		b := &tasks{done: make(map[string]int64)}
		for _, id := range "abcdefghijklmnopqrst" {
			b.done[string(id)] = 0
		}
		var mu sync.Mutex
		did := make(map[string]int)
		var all sync.WaitGroup
		for n := range 5 {
			session := redis.Session()
			first := n == 0
			all.Go(func() {
				for {
					err := workOn(background, session, b, func(ctx context.Context, id string) error {
						mu.Lock()
						did[id]++
						frozen := first
						first = false
						mu.Unlock()
						if !frozen {
							time.Sleep(10 * time.Second)
							return nil
						}
						heal := redis.Partition(session)
						time.Sleep(5 * time.Minute)
						heal()
						return nil
					})
					if n == 0 && errors.Is(err, relock.ErrLost) {
						require.ErrorIs(t, err, errStale)
					} else {
						require.NoError(t, err)
					}
					if ids, _ := b.Open(background); len(ids) == 0 {
						return
					}
					time.Sleep(time.Second)
				}
			})
		}
		all.Wait()
		twice := 0
		for id, n := range did {
			require.NotZero(t, b.done[id])
			twice += n - 1
		}
		require.Len(t, did, 20)
		require.Equal(t, 1, twice, "the task of the worker that was cut off")
	})
}

type message struct{ account, ticket string }

// jobQueue delivers a message again a while after its handling has failed.
type jobQueue struct{ messages chan message }

func (q *jobQueue) send(_ context.Context, account, ticket string) error {
	q.messages <- message{account, ticket}
	return nil
}

func (q *jobQueue) deliver(to func(message) error) (err error) {
	m := <-q.messages
	if err = to(m); err != nil {
		time.AfterFunc(time.Minute, func() { q.messages <- m })
	}
	return err
}

// A worker dies in a job, so its message is delivered again, to a worker that has the next message
// for that account behind it, with the lock.
func TestRedeliveredJobDoesNotWaitForAMessageBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		web, dies, worker := redis.Session(), redis.Session(), redis.Session()
		q := &jobQueue{make(chan message, 10)}
		require.NoError(t, submit(background, web, "7", q.send))
		require.ErrorIs(t, submit(background, web, "7", q.send), relock.ErrTaken)
		first := <-q.messages
		_, err := dies.Adopt(background, first.ticket)
		require.NoError(t, err)
		require.ErrorIs(t, handle(background, worker, "7", first.ticket, nil), relock.ErrTaken, "the first delivery is under way")
		memredis.Of(redis, dies).Vanish(true)
		time.Sleep(31 * time.Second)

		q.messages <- first // again
		require.NoError(t, submit(background, web, "7", q.send))
		begun, jobs := time.Now(), 0
		job := func(ctx context.Context) error {
			require.NotZero(t, relock.Token(ctx))
			time.Sleep(time.Second)
			jobs++
			return nil
		}
		work := func(m message) error { return handle(background, worker, m.account, m.ticket, job) }
		require.ErrorIs(t, q.deliver(work), relock.ErrTaken)
		require.NoError(t, q.deliver(work)) // the one behind it
		require.NoError(t, q.deliver(work)) // the first again
		require.Equal(t, 2, jobs)
		require.Less(t, time.Since(begun), 2*time.Minute, "it has not waited for the end of a ticket")
	})
}

// A message cannot be sent: the lock is free at once. If it has arrived all the same, its job is
// done.
func TestUnsentJobFreesItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		web, worker := redis.Session(), redis.Session()
		fails := errors.New("no reply from the queue")
		var ticket string
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		require.ErrorIs(t, submit(ctx, web, "7", func(_ context.Context, _, sent string) error {
			ticket = sent
			cancel()
			return fails
		}), fails)
		state, err := web.Inspect(background, "7")
		require.NoError(t, err)
		require.Equal(t, relock.Unlocked, state.Mode)
		lost := errors.New("lost")
		begun := time.Now()
		err = handle(background, worker, "7", ticket, func(ctx context.Context) error {
			redis.Lose("7")
			<-ctx.Done()
			return lost
		})
		require.ErrorIs(t, err, lost)
		require.ErrorIs(t, err, relock.ErrLost)
		require.Less(t, time.Since(begun), time.Second)
	})
}
