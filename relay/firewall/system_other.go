//go:build !linux

package firewall

import (
	"context"
	"errors"
	"os"
	"syscall"
)

func apart() *syscall.SysProcAttr { return nil }

func detach(context.Context, *os.File, string, ...string) error { return errLinux }

func lockFile(*os.File) error { return errLinux }

func owned(os.FileInfo) error { return errLinux }

var errLinux = errors.New("nftables is a part of Linux")
