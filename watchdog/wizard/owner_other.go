//go:build !unix

package wizard

import "io/fs"

// trusted cannot tell here.
func trusted(fs.FileInfo) bool { return true }
