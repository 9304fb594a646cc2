//go:build unix

package journal

import (
	"io/fs"
	"os"
	"syscall"
)

// ownerOf returns who must be able to use what root makes. ok is false if that is
// us: only root may and need give something away.
func ownerOf(info fs.FileInfo) (uid, gid int, ok bool) {
	st, known := info.Sys().(*syscall.Stat_t)
	if !known || os.Geteuid() != 0 || st.Uid == 0 {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

func giveToOwner(root *os.Root, f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if uid, gid, ok := ownerOf(info); ok {
		return f.Chown(uid, gid)
	}
	return nil
}

func giveDirToOwner(parent, dir string) error {
	info, err := os.Stat(parent)
	if err != nil {
		return err
	}
	if uid, gid, ok := ownerOf(info); ok {
		return os.Lchown(dir, uid, gid)
	}
	return nil
}
