//go:build !unix

package apply

import (
	"errors"
	"io/fs"
	"os"
)

const reloadSignal = 0

func own(*os.File, fs.FileInfo) error { return nil }

func lock(string) (func(), error) { return nil, errors.New("HAProxy runs on unix only") }
