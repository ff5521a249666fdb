package spec

import (
	"os"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/redistest"
)

func mustDir() string {
	dir, err := os.MkdirTemp("", "spec")
	if err != nil {
		panic(err)
	}
	return dir
}

func mustClient(server *redistest.Server) rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true})
	if err != nil {
		panic(err)
	}
	return client
}
