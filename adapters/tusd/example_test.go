package relocktusd_test

import (
	"testing"

	"github.com/relock-go/relock"
	relocktusd "github.com/relock-go/relock/adapters/tusd"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/snippets"
	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
)

func uploads(store filestore.FileStore, session *relock.Session) (*handler.Handler, error) {
	composer := handler.NewStoreComposer()
	store.UseIn(composer) // s3store, gcsstore, azurestore, or a file system that the servers share
	composer.UseLocker(relocktusd.NewLocker(session))
	uploads, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
	return uploads, err
}

func TestREADMEHasThisProgram(t *testing.T) {
	t.Parallel()
	snippets.Same(t, "README.md", "go", 30, "example_test.go")
	h, err := uploads(filestore.New(t.TempDir()), kit.NewSession(t, redistest.Start(t)))
	require.NoError(t, err)
	require.NotNil(t, h)
}
