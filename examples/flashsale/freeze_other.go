//go:build !unix

package main

import (
	"errors"
	"os"
)

var errNoStop = errors.New("this system cannot stop a process as SIGSTOP does")

func suspend(*os.Process) error { return errNoStop }

func resume(*os.Process) error { return errNoStop }
