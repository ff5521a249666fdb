package main

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// publish puts the module in dir into a directory that GOPROXY can name ("go help goproxy").
func publish(proxy, dir, version string) error {
	module := path.Join(library, filepath.ToSlash(dir))
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"list":            version + "\n",
		version + ".info": `{"Version":"` + version + `"}`,
		version + ".mod":  string(mod),
	} {
		if err := write(filepath.Join(at, name), text); err != nil {
			return err
		}
	}
	file, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		return err
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	if err := pack(archive, dir, module+"@"+version); err != nil {
		return err
	}
	return archive.Close()
}

// pack adds the files of the module in dir, without those of the modules below it.
func pack(archive *zip.Writer, dir, prefix string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git": // a file in a work tree
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir() && name != dir:
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return filepath.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		from, err := os.Open(name)
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := archive.Create(path.Join(prefix, filepath.ToSlash(rel)))
		if err != nil {
			return err
		}
		_, err = io.Copy(to, from)
		return err
	})
}
