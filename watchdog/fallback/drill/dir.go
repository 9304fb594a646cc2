package drill

import (
	"fmt"
	"os"
)

// emptyDir makes an empty directory: one that was killed may have left something.
func emptyDir(dir string) error {
	if err := removeDir(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a directory for the rehearsal: %w", err)
	}
	return nil
}

func removeDir(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing what a rehearsal has left: %w", err)
	}
	return nil
}
