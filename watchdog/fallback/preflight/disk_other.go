//go:build !linux

package preflight

import (
	"errors"
	"fmt"
)

// diskOf says that it can't be found out, which is not well.
func diskOf(string) (disk, error) {
	return disk{}, fmt.Errorf("disks can be looked at on Linux only: %w", errors.ErrUnsupported)
}

func mountPoints() ([]string, error) {
	return nil, fmt.Errorf("mounts can be looked at on Linux only: %w", errors.ErrUnsupported)
}
