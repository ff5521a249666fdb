package relocktusd_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	relocktusd "github.com/relock-go/relock/adapters/tusd"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"
)

// server is a process that serves uploads to the directory args[1], and prints its address.
func server(args []string) {
	session, _ := kit.ChildSession(args[0], relock.WithPrefix("upload:"), relock.WithLease(2*time.Second))
	composer := handler.NewStoreComposer()
	filestore.New(args[1]).UseIn(composer)
	composer.UseLocker(relocktusd.NewLocker(session))
	h, err := handler.NewHandler(handler.Config{
		BasePath: "/files/", StoreComposer: composer, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	kit.ChildCheck(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.ChildCheck(err)
	fmt.Println("at", "http://"+listener.Addr().String())
	kit.ChildCheck(http.Serve(listener, http.StripPrefix("/files/", h)))
}

// upload is one file that a client uploads to two servers with one store.
type upload struct {
	t        *testing.T
	dir      string
	one, two string // their addresses
	first    *redistest.Proc
	path     string
}

func newUpload(t *testing.T, size int) *upload {
	redis := redistest.Start(t)
	u := &upload{t: t, dir: t.TempDir()}
	start := func() (*redistest.Proc, string) {
		p := redistest.Child(t, "server", redis.Addr(), u.dir)
		at, err := p.Expect("at ", kit.Soon)
		require.NoError(t, err)
		return p, at
	}
	u.first, u.one = start()
	_, u.two = start()
	r := u.do(http.MethodPost, u.one+"/files/", nil, "Upload-Length", fmt.Sprint(size))
	require.Equal(t, http.StatusCreated, r.StatusCode)
	u.path = strings.TrimPrefix(r.Header.Get("Location"), u.one)
	return u
}

func (u *upload) do(method, url string, body io.Reader, header ...string) *http.Response {
	u.t.Helper()
	r, err := request(u.t, method, url, body, header...)
	require.NoError(u.t, err)
	return r
}

func request(t *testing.T, method, url string, body io.Reader, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return r, err
}

var patch = []string{"Content-Type", "application/offset+octet-stream", "Upload-Offset"}

// stalls sends a part of the upload to the first server, and then nothing more on a connection that stays open. ended
// is closed when the server has answered, or the client has given up.
func (u *upload) stalls(part string) (ended <-chan struct{}, giveUp func() error) {
	reader, writer := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = request(u.t, http.MethodPatch, u.one+u.path, reader, append(patch, "0")...)
	}()
	_, err := writer.Write([]byte(part))
	require.NoError(u.t, err)
	redistest.Eventually(u.t, kit.Soon, "the part in the store", func() bool {
		return bytes.Equal(u.stored(), []byte(part))
	})
	return done, writer.Close
}

func (u *upload) stored() []byte {
	text, _ := os.ReadFile(filepath.Join(u.dir, filepath.Base(u.path)))
	return text
}

// resumes goes on with the upload at the second server, and returns how long that took to answer first.
func (u *upload) resumes(part, rest string) time.Duration {
	start := time.Now()
	r := u.do(http.MethodHead, u.two+u.path, nil)
	took := time.Since(start)
	require.Equal(u.t, http.StatusOK, r.StatusCode)
	require.Equal(u.t, fmt.Sprint(len(part)), r.Header.Get("Upload-Offset"))
	r = u.do(http.MethodPatch, u.two+u.path, strings.NewReader(rest), append(patch, fmt.Sprint(len(part)))...)
	require.Equal(u.t, http.StatusNoContent, r.StatusCode)
	require.Equal(u.t, part+rest, string(u.stored()))
	return took
}

// A client whose connection has died resumes its upload at another server, which gets the lock as soon as the first
// one has stopped.
func TestUploadIsResumedAtAnotherServer(t *testing.T) {
	t.Parallel()
	u := newUpload(t, 10)
	ended, giveUp := u.stalls("hello")
	t.Logf("the other server had the lock after %v", u.resumes("hello", "world"))
	<-ended // the client has not given up
	require.NoError(t, giveUp())
}

func TestUploadIsResumedWhenAServerIsKilled(t *testing.T) {
	t.Parallel()
	u := newUpload(t, 10)
	ended, giveUp := u.stalls("hello")
	u.first.Kill()
	t.Logf("the other server had the lock after %v", u.resumes("hello", "world"))
	require.NoError(t, giveUp())
	<-ended
}
