// Example has two servers with one store. A client uploads the first half of a file to process 1, and then is silent
// on a connection that stays open. It goes on at process 2, which has the lock as soon as process 1 has let go.
//
//	go run ./example    # both, on a Redis in memory and a temporary directory
//
//	go run ./example -redis localhost:6379 -dir /tmp/uploads -number 1    # each in a terminal
//	go run ./example -redis localhost:6379 -dir /tmp/uploads -number 2
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"github.com/relock-go/relock/adapters/internal/demo"
	relocktusd "github.com/relock-go/relock/adapters/tusd"
)

func main() { demo.Main("tusd", run) }

func run(ctx context.Context, p demo.Process) error {
	composer := handler.NewStoreComposer()
	filestore.New(p.Dir).UseIn(composer)
	composer.UseLocker(relocktusd.NewLocker(p.Session))
	h, err := handler.NewHandler(handler.Config{
		BasePath: "/files/", StoreComposer: composer, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	at := fmt.Sprintf("http://%s/files/", listener.Addr())
	server := http.Server{Handler: http.StripPrefix("/files/", h)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	log.Print("at ", at)

	address := filepath.Join(p.Dir, "address") // of process 1
	if p.Number == 1 {
		err = os.WriteFile(address, []byte(at), 0o600)
		<-ctx.Done()
	} else {
		err = client(ctx, address, at)
	}
	_ = server.Close()
	<-served
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// client uploads a file every second, half of it to each server.
func client(ctx context.Context, address, two string) error {
	for ctx.Err() == nil {
		time.Sleep(time.Second)
		one, err := os.ReadFile(address)
		if err != nil {
			continue // process 1 starts
		}
		r, err := do(ctx, http.MethodPost, string(one), nil, "Upload-Length", "10")
		if err != nil {
			return err
		}
		id := r.Header.Get("Location")[len(one):]

		body, half := io.Pipe()
		go do(ctx, http.MethodPatch, string(one)+id, body, "Upload-Offset", "0")
		_, _ = half.Write([]byte("hello")) // and nothing more
		log.Printf("half of %s is sent to process 1", id)
		time.Sleep(time.Second)

		start := time.Now()
		r, err = do(ctx, http.MethodHead, two+id, nil)
		if err != nil {
			return err
		}
		log.Printf("process 2 has the lock after %v", time.Since(start).Round(time.Millisecond))
		if r, err = do(ctx, http.MethodPatch, two+id, strings.NewReader("world"),
			"Upload-Offset", r.Header.Get("Upload-Offset")); err != nil {
			return err
		}
		log.Printf("%s bytes are uploaded", r.Header.Get("Upload-Offset"))
		_ = half.Close()
	}
	return nil
}

// do sends a request of the protocol.
func do(ctx context.Context, method, url string, body io.Reader, header ...string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Tus-Resumable", "1.0.0")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/offset+octet-stream")
	}
	if len(header) > 0 {
		request.Header.Set(header[0], header[1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("%s %s: %s %s", method, url, response.Status, text)
	}
	return response, nil
}
