package writeback

import (
	"fmt"
	"io"
	"net"
	"os"
)

// RSH is what rsync runs in the place of ssh: args are the socket, the name of the
// other home, and the command to run there. It passes bytes on between rsync and the
// process that has started it, and returns the exit code.
func RSH(args []string, in io.Reader, out io.Writer) int {
	if err := passOn(args, in, out); err != nil {
		fmt.Fprintln(os.Stderr, "passing bytes on for rsync:", err)
		return 1
	}
	return 0
}

func passOn(args []string, in io.Reader, out io.Writer) error {
	if len(args) < 4 {
		return fmt.Errorf("%d arguments: this is for rsync to start", len(args))
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: args[0], Net: "unix"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := writeFrame(conn, args[3:]); err != nil {
		return err
	}
	go func() { // ends with the process, if rsync keeps its end open
		_, _ = io.Copy(conn, in)
		_ = conn.CloseWrite()
	}()
	_, err = io.Copy(out, conn)
	return err
}
