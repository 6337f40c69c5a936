//go:build !linux

package real

import (
	"errors"
	"syscall"
)

// Networks and processes of their own are Linux's.

func isolation() *syscall.SysProcAttr { return nil }

// Inside says that there is no place for a flight here.
func Inside(string) error { return errors.New("real autopilots fly on Linux alone") }
