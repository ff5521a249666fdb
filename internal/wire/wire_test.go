package wire

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// plainConn is a connection without a client library.
type plainConn struct {
	t testing.TB
	net.Conn
}

func (r *rig) plain() plainConn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return plainConn{r.t, conn}
}

// send sends a command.
func (c plainConn) send(args ...string) {
	c.t.Helper()
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, a := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// must checks what arrives next, byte for byte.
func (c plainConn) must(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil {
		c.t.Fatalf("%q, then %v; want %q", got[:n], err, want)
	}
	if string(got) != want {
		c.t.Fatalf("%q, want %q", got, want)
	}
}

// What a client in another language sees of a lock, byte for byte, by the protocol of
// old that Redisson speaks.
func TestWireFormatByteForByte(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		sub, asks := r.plain(), r.plain()
		sub.send("SUBSCRIBE", "redisson_lock__channel:{stock}")
		sub.must("*3\r\n$9\r\nsubscribe\r\n$30\r\nredisson_lock__channel:{stock}\r\n:1\r\n")

		l := plainLease("stock", 1)
		l.ID = "6f1b2c3d-0000-4000-8000-000000000000:12"
		token := r.take(l)
		asks.send("HGETALL", "stock")
		asks.must("*2\r\n$39\r\n" + l.ID + "\r\n$1\r\n1\r\n")
		asks.send("GET", "relock_fence:{stock}")
		asks.must(fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(token)), token))
		if len(fmt.Sprint(token)) != 16 {
			t.Fatalf("token %d", token)
		}
		// Redisson's own question, which must find the holder and its count.
		asks.send("HINCRBY", "stock", l.ID, "0")
		asks.must(":1\r\n")

		r.end(l)
		sub.must("*3\r\n$7\r\nmessage\r\n$30\r\nredisson_lock__channel:{stock}\r\n$1\r\n0\r\n")
		asks.send("EXISTS", "stock")
		asks.must(":0\r\n")

		// Nothing else was published.
		asks.send("PUBLISH", "redisson_lock__channel:{stock}", "end")
		asks.must(":1\r\n")
		sub.must("*3\r\n$7\r\nmessage\r\n$30\r\nredisson_lock__channel:{stock}\r\n$3\r\nend\r\n")
	})
}
