package preflight

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// diskOf looks at the file system that the path is on.
func diskOf(path string) (disk, error) {
	var at unix.Stat_t
	if err := unix.Stat(path, &at); err != nil {
		return disk{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return disk{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return disk{
		id: uint64(at.Dev), free: int64(fs.Bavail) * int64(fs.Bsize),
		noInodes: fs.Files > 0 && fs.Ffree == 0, // file systems without a fixed number say 0
		readOnly: fs.Flags&unix.ST_RDONLY != 0,
	}, nil
}

// mountPoints are where something is mounted; see proc_pid_mountinfo(5). What autofs has
// put there only promises it.
func mountPoints() ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if point, ok := mountPoint(lines.Text()); ok {
			list = append(list, point)
		}
	}
	return list, lines.Err()
}

func mountPoint(line string) (string, bool) {
	before, after, ok := strings.Cut(line, " - ")
	fields := strings.Fields(before)
	if !ok || len(fields) < 5 || strings.HasPrefix(after, "autofs ") {
		return "", false
	}
	return unescape(fields[4]), true
}

// unescape undoes \040 and the like.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
