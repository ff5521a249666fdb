package recipes

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// errLate: a later holder of the lock has written already.
var errLate = errors.New("too late: the lock was lost, and a later holder has written")

// save writes an order into PostgreSQL or SQLite, with the context of the Do that protects it.
func save(ctx context.Context, db *sql.DB, id, status string) error {
	result, err := db.ExecContext(ctx, `
		INSERT INTO orders (id, status, token) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET status = excluded.status, token = excluded.token
		WHERE orders.token <= excluded.token`, id, status, relock.Token(ctx))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return errLate
}

const fenced = `
if tonumber(redis.call('HGET', KEYS[1], 'token') or 0) > tonumber(ARGV[1]) then
	return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'status', ARGV[2])
return 1`

// set writes an order into Redis, with the context of the Do that protects it.
func set(ctx context.Context, client rueidis.Client, id, status string) error {
	token := strconv.FormatInt(relock.Token(ctx), 10)
	write := client.B().Eval().Script(fenced).Numkeys(1).Key("order:"+id).Arg(token, status).Build()
	n, err := client.Do(ctx, write).AsInt64()
	if err != nil || n == 1 {
		return err
	}
	return errLate
}
