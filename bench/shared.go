package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sharedCells = 8
	cellSize    = 128 // apart, so that no two are in one cache line
)

// shared is memory that all workers see.
type shared struct {
	file string
	mem  []byte
}

// newShared makes the memory, in a file of dir.
func newShared(dir string) (*shared, error) {
	f, err := os.CreateTemp(dir, "shared-")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(sharedCells * cellSize); err != nil {
		return nil, err
	}
	return openShared(f.Name())
}

func openShared(name string) (*shared, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, sharedCells*cellSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap %s: %w", name, err)
	}
	return &shared{name, mem}, nil
}

func (s *shared) close() error { return unix.Munmap(s.mem) }

// cell returns one of the numbers.
func (s *shared) cell(i int) *atomic.Int64 {
	return (*atomic.Int64)(unsafe.Pointer(&s.mem[i*cellSize]))
}

// The cells. Whoever holds a lock adds one to counted by reading it and writing it
// back: if two hold it at once, one of these gets lost.
const (
	counted = iota
	inside  // readers, and writers times aWriter
	reads
	cells
)

const aWriter = 1 << 20

// count is what the holder of a lock does.
func (s *shared) count() {
	c := s.cell(counted)
	c.Store(c.Load() + 1)
}

// enter and leave are what readers and writers do. enter reports whether only those
// were inside that may be.
func (s *shared) enter(write bool) bool {
	if write {
		return s.cell(inside).Add(aWriter) == aWriter
	}
	return s.cell(inside).Add(1) < aWriter
}

func (s *shared) leave(write bool) {
	if write {
		s.cell(inside).Add(-aWriter)
		return
	}
	s.cell(inside).Add(-1)
}

// reset sets all cells to 0.
func (s *shared) reset() {
	for i := range cells {
		s.cell(i).Store(0)
	}
}
