//go:build !unix

package journal

import (
	"errors"
	"os"
)

func tryLock(*os.File) (ok bool, err error) {
	return false, errors.New("this system has no flock: run the watchdog on a unix system")
}
