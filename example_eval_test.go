package relock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/relock-go/relock"
)

// The last piece of a flash sale is sold twice if a process decides under the lock, is frozen beyond
// its lease, and then writes. A guarded script checks the lock at the moment of the write.
func ExampleHold_Eval() {
	const sell = `
		local left = tonumber(redis.call('get', KEYS[1]) or ARGV[1])
		if left == 0 then return 'sold out' end
		redis.call('set', KEYS[1], left - 1)
		return 'sold to ' .. ARGV[2]`
	stock := []string{"{shoe}:stock"}

	session, done := newExampleSession()
	defer done()
	ctx := context.Background()
	shoe := session.Mutex("shoe")
	order := func(h *relock.Hold, buyer string) (string, error) {
		return h.Eval(ctx, sell, stock, []string{"1", buyer}).ToString()
	}

	late, err := shoe.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = session.ForceUnlock(ctx, "shoe") // as if it were frozen: somebody else gets the lock
	if err != nil {
		fmt.Println(err)
	}
	err = relock.Do(ctx, shoe, func(ctx context.Context) error {
		text, err := order(relock.HoldOf(ctx), "Ann")
		fmt.Println(text)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	_, err = order(late, "Bob") // it wakes up
	fmt.Println("Bob's order failed:", errors.Is(err, relock.ErrLost))

	// Output:
	// sold to Ann
	// Bob's order failed: true
}
