package relock

import (
	"embed"
	"io/fs"

	"github.com/relock-go/relock/internal/wire"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// scripts are what every session of this process sends to Redis. Whether they load depends
// on nothing but the files in lua, all of them: if one is missing, no test of this package
// starts.
var scripts = func() *wire.Scripts {
	files, err := fs.Sub(luaFiles, "lua")
	if err != nil {
		panic(err)
	}
	loaded, err := wire.LoadScripts(files)
	if err != nil {
		panic(err)
	}
	return loaded
}()
