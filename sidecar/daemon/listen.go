package daemon

import (
	"net"
	"os"
	"path/filepath"
)

// listenPrivately makes a unix socket that nobody else could open at any moment: it is
// made in a folder of its own, and moved.
func listenPrivately(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s") // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(made, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	if err := os.Rename(made, path); err != nil {
		_ = l.Close()
		return nil, err
	}
	return removing{l, path}, nil
}

// removing removes the socket at the end.
type removing struct {
	net.Listener
	path string
}

// Close implements net.Listener.
func (r removing) Close() error {
	_ = os.Remove(r.path)
	return r.Listener.Close()
}
