package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// service takes payments. In production each instance is a process; all they share is Redis.
type service struct {
	client  rueidis.Client
	session *relock.Session
	timeout time.Duration // of a request: for its turn, and for the bank
	bank    time.Duration // what the bank takes to answer
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/payment", s.pay)
	return mux
}

// pay answers a request for the payment of an order.
func (s *service) pay(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.timeout)
	defer cancel()
	id := r.PathValue("id")
	// A lock for each order, and a new Mutex for each request: orders don't wait for each other.
	err := relock.Do(ctx, s.session.Mutex(id), func(ctx context.Context) error {
		return s.charge(ctx, id)
	})
	switch {
	case err == nil:
		w.WriteHeader(http.StatusCreated)
	case errors.Is(err, errPaid):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, relock.ErrName):
		http.Error(w, "bad order id", http.StatusBadRequest)
	case errors.Is(err, relock.ErrTaken): // until the timeout, by another request for this order
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the order is being paid", http.StatusLocked)
	default: // too slow, Redis is away, or the lock was lost; it is safe to ask again
		w.Header().Set("Retry-After", "1")
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}

var errPaid = errors.New("the order is paid already")

// charge charges an order unless it is paid: the look and the charge that must not come
// between another request's. It is called under the lock of the order.
//
// ctx ends with the request, and when the lock is lost. What has not been charged by then is
// not charged. The token beside each charge tells which came late, should a process that was
// frozen ever charge twice. A real bank takes an idempotency key too: give it the order's id.
func (s *service) charge(ctx context.Context, id string) error {
	charges := "orders:charges:" + id // list; what the bank did
	switch n, err := s.client.Do(ctx, s.client.B().Llen().Key(charges).Build()).AsInt64(); {
	case err != nil:
		return err
	case n > 0:
		return errPaid
	}
	select {
	case <-time.After(s.bank):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	token := strconv.FormatInt(relock.Token(ctx), 10)
	return s.client.Do(ctx, s.client.B().Rpush().Key(charges).Element(token).Build()).Error()
}
