package recipes

import (
	"context"
	"encoding/json"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// An apiToken is in Redis at the key api:token, as JSON. A login has put the first one there.
type apiToken struct {
	Access, Refresh string
	Expires         time.Time
}

type api struct {
	session  *relock.Session
	redis    rueidis.Client
	exchange func(ctx context.Context, refresh string) (apiToken, error) // asks the provider
}

// load returns the token that is in Redis, and its text there.
func (a *api) load(ctx context.Context) (t apiToken, text string, err error) {
	text, err = a.redis.Do(ctx, a.redis.B().Get().Key("api:token").Build()).ToString()
	if err == nil {
		err = json.Unmarshal([]byte(text), &t)
	}
	return t, text, err
}

// replace stores the new token if the old one is still there, and returns what is there afterwards.
const replace = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
	redis.call('SET', KEYS[1], ARGV[2])
end
return redis.call('GET', KEYS[1])`

// token returns a token that is good for at least 30 s more.
func (a *api) token(ctx context.Context) (apiToken, error) {
	t, _, err := a.load(ctx)
	left := time.Until(t.Expires)
	if err != nil || left > 5*time.Minute {
		return t, err
	}
	lock := a.session.Mutex("api", relock.WithWait(20*time.Second))
	refresh := func(ctx context.Context) error { return a.refresh(ctx, &t) }
	if left < 30*time.Second {
		err = relock.Do(ctx, lock, refresh)
		return t, err
	}
	// One caller refreshes it ahead of time. Meanwhile the others use the old token.
	if _, err := relock.TryDo(ctx, lock, refresh); err != nil {
		log.Printf("the token of the API is not refreshed yet: %v", err)
	}
	return t, nil
}

// refresh replaces the token, under the lock, unless another caller just has.
func (a *api) refresh(ctx context.Context, t *apiToken) error {
	// A caller that gives up must not end an exchange, which may have used the refresh token.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	latest, old, err := a.load(ctx)
	if err != nil {
		return err
	}
	if *t = latest; time.Until(latest.Expires) > 5*time.Minute {
		return nil
	}
	if latest, err = a.exchange(ctx, latest.Refresh); err != nil {
		return err
	}
	text, err := json.Marshal(latest)
	if err != nil {
		return err
	}
	*t = latest
	eval := a.redis.B().Eval().Script(replace).Numkeys(1).Key("api:token")
	store := eval.Arg(old, string(text)).Build().Pin()
	for { // retry while Redis is away: only this process has the new refresh token
		err = a.redis.Do(ctx, store).DecodeJSON(t)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
