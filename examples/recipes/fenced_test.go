package recipes

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// orders is a database that knows the one statement of save, and does what PostgreSQL does.
type orders struct {
	mu    sync.Mutex // protects rows
	rows  map[string]order
	fails error
}

type order struct {
	status string
	token  int64
}

func (o *orders) Connect(context.Context) (driver.Conn, error) { return conn{o}, nil }
func (o *orders) Driver() driver.Driver                        { return nil }
func (conn) Prepare(string) (driver.Stmt, error)               { return nil, errors.ErrUnsupported }
func (conn) Begin() (driver.Tx, error)                         { return nil, errors.ErrUnsupported }
func (conn) Close() error                                      { return nil }

type conn struct{ o *orders }

const upsert = "INSERT INTO orders (id, status, token) VALUES ($1, $2, $3) ON CONFLICT (id) " +
	"DO UPDATE SET status = excluded.status, token = excluded.token WHERE orders.token <= excluded.token"

func (c conn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.Join(strings.Fields(query), " ") != upsert {
		return nil, errors.ErrUnsupported
	}
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	id, token := args[0].Value.(string), args[2].Value.(int64)
	if c.o.fails != nil {
		return nil, c.o.fails
	}
	if old, ok := c.o.rows[id]; ok && old.token > token {
		return driver.RowsAffected(0), nil
	}
	c.o.rows[id] = order{args[1].Value.(string), token}
	return driver.RowsAffected(1), nil
}

// A holder writes, loses the lock, does not notice, and writes again: first before the next holder does, then after it.
func TestLateWriteIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		client := redis.Client()
		o := &orders{rows: make(map[string]order)}
		db := sql.OpenDB(o)
		defer func() { require.NoError(t, db.Close()) }()
		stores := map[string]struct {
			write func(ctx context.Context, status string) error
			read  func() string
		}{
			"SQL": {
				func(ctx context.Context, status string) error { return save(ctx, db, "1", status) },
				func() string { return o.rows["1"].status },
			},
			"Redis": {
				func(ctx context.Context, status string) error { return set(ctx, client, "1", status) },
				func() string {
					status, err := client.Do(background, client.B().Hget().Key("order:1").Field("status").Build()).ToString()
					require.NoError(t, err)
					return status
				},
			},
		}
		for name, store := range stores {
			under := func(f func(ctx context.Context)) error {
				return relock.Do(background, redis.Session().Mutex("order:1-"+name), func(ctx context.Context) error {
					f(context.WithoutCancel(ctx)) // it does not notice
					return nil
				})
			}
			err := under(func(late context.Context) {
				require.NoError(t, store.write(late, "paid"))
				redis.Lose("order:1-" + name)
				require.NoError(t, store.write(late, "packed"), "nobody else has written")
				require.NoError(t, under(func(ctx context.Context) { require.NoError(t, store.write(ctx, "sent")) }))
				require.ErrorIs(t, store.write(late, "cancelled"), errLate)
			})
			require.ErrorIs(t, err, relock.ErrLost)
			require.Equal(t, "sent", store.read(), name)
		}
		o.fails = errors.New("no database")
		require.ErrorIs(t, save(background, db, "1", ""), o.fails)
	})
}
