package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// jobs is a list in Redis. Each is a ticket, which says all that there is to say: of which lock. A queue of
// your own has the ticket beside the job, where only your workers can read it.
const jobs = "report:jobs"

// patience is how long a job may wait for a worker. After that its lock is free, and the job must be asked for again.
const patience = 10 * time.Minute

type service struct {
	client  rueidis.Client
	session *relock.Session
	out     io.Writer
	pace    time.Duration // what a job takes
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /accounts/{id}/report", s.begin)
	return mux
}

// begin answers a request for a report of an account.
func (s *service) begin(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	hold, err := s.session.Mutex(r.PathValue("id")).TryAcquire(ctx)
	switch {
	case errors.Is(err, relock.ErrTaken):
		http.Error(w, "the account is being worked on", http.StatusConflict)
		return
	case err != nil:
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	// What the request has to check and note is done here, under the lock. If it fails, unlock the hold. From here on the
	// lock is the worker's; if Handoff fails, it is nobody's.
	ticket, err := hold.Handoff(ctx, patience)
	if err == nil {
		err = s.client.Do(ctx, s.client.B().Lpush().Key(jobs).Element(ticket).Build()).Error()
	}
	if err != nil { // nobody has the ticket, or perhaps a worker does: it ends by itself
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// work does one job after the other until ctx ends.
func (s *service) work(ctx context.Context) error {
	for ctx.Err() == nil {
		job, err := s.client.Do(ctx, s.client.B().Brpop().Key(jobs).Timeout(1).Build()).AsStrSlice()
		if err == nil {
			err = s.finish(ctx, job[1])
		}
		if err != nil && !rueidis.IsRedisNil(err) && ctx.Err() == nil {
			fmt.Fprintln(s.out, "worker:", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// finish does a job under the lock that its ticket stands for. The lock is renewed from now on, however long that takes.
func (s *service) finish(ctx context.Context, ticket string) (err error) {
	hold, err := s.session.Adopt(ctx, ticket)
	if err != nil {
		return err // ErrLost: too late, or another worker has it
	}
	defer func() { err = errors.Join(err, hold.Unlock(context.WithoutCancel(ctx))) }()
	select {
	case <-time.After(s.pace): // the job; the store should check hold.Token()
	case <-hold.Done(): // the lock is lost
		return hold.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Fprintf(s.out, "reported account %s, token %d\n", hold.Name(), hold.Token())
	return nil
}
