//go:build !linux

package writeback

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"time"
)

const supported = false

var errSystem = errors.New("writeback works on Linux only")

func changed(fs.FileInfo) time.Time { return time.Time{} }

func free(string) (int64, error) { return 0, errSystem }

func together(string, string) bool { return false }

func settle(*os.File) error { return errSystem }

func rename(*os.File, string, *os.File) (bool, error) { return false, errSystem }

func alone(*exec.Cmd) {}

func reap(*exec.Cmd) {}

func own(*os.File, fs.FileInfo) {}

func ours(fs.FileInfo) bool { return false }
