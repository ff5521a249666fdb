package relock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/relock-go/relock"
)

// shelf is a store that checks fencing tokens: it refuses one that is smaller than the
// largest it was shown.
type shelf struct {
	mu    sync.Mutex // protects the following
	seen  int64
	stock int
}

var errStale = errors.New("refused: a later holder was here")

func (s *shelf) Stock(token int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.seen {
		return 0, errStale
	}
	s.seen = token
	return s.stock, nil
}

func (s *shelf) SetStock(stock int, token int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.seen {
		return errStale
	}
	s.seen, s.stock = token, stock
	return nil
}

// A holder stands still between reading and writing. Meanwhile it loses the lock, and somebody else
// has it. The holder is told, and what it writes too late is refused. The token goes with the work,
// not with the handle: the latest hold taken through that may be another's.
func ExampleToken() {
	session, done := newExampleSession()
	defer done()
	ctx := context.Background()

	store := &shelf{stock: 10}
	sell := func(pause func(ctx context.Context)) error {
		return relock.Do(ctx, session.Mutex("goods:1000:1"), func(ctx context.Context) error {
			token := relock.Token(ctx)
			stock, err := store.Stock(token)
			if err != nil {
				return err
			}
			pause(ctx)
			return store.SetStock(stock-1, token)
		})
	}

	err := sell(func(holder context.Context) {
		// As if the lease had run out while this process was frozen.
		if _, err := session.ForceUnlock(ctx, "goods:1000:1"); err != nil {
			fmt.Println(err)
		}
		fmt.Println("the other:", sell(func(context.Context) {}))
		<-holder.Done()
		fmt.Println("told:", context.Cause(holder))
	})
	fmt.Println("lost:", errors.Is(err, relock.ErrLost))
	fmt.Println("write:", errors.Is(err, errStale))
	fmt.Println("left:", store.stock)

	// Output:
	// the other: <nil>
	// told: relock: hold "goods:1000:1": lock lost: it was forced open
	// lost: true
	// write: true
	// left: 9
}
