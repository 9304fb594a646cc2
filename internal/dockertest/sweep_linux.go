package dockertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sweep removes what test processes left that were killed.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(base(), dirPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue // it may not have its lock yet
		}
		lock, err := lockDir(dir)
		if err != nil {
			continue
		}
		_ = clean(dir) // the next one tries again
		_ = lock.Close()
	}
}

// clean ends all processes that belong to a daemon's directory, takes its mounts away
// and removes it.
func clean(dir string) error {
	var err error
	for range 200 {
		// Nothing is removed below a mount: that would be somebody else's.
		if kill(dir)+unmount(dir) == 0 {
			if err = os.RemoveAll(dir); err == nil {
				return nil
			}
		}
		pauseBriefly()
	}
	if err == nil {
		err = errors.New("its processes or mounts do not go away")
	}
	return fmt.Errorf("cleaning %s: %w", dir, err)
}

func pauseBriefly() { <-time.After(20 * time.Millisecond) }

// kill kills the daemon, its containerd and shims, which name the directory in their
// arguments, and the containers, whose cgroup has the container's name. It returns how
// many it found.
func kill(dir string) (found int) {
	marks := [][]byte{[]byte(dir + "/")}
	containers, _ := os.ReadDir(filepath.Join(dir, "d", "containers"))
	for _, c := range containers {
		marks = append(marks, []byte(c.Name()))
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		cgroup, _ := os.ReadFile(filepath.Join(p, "cgroup"))
		ours := daemonProgram(cmdline) && bytes.Contains(cmdline, marks[0])
		for _, id := range marks[1:] {
			ours = ours || len(id) == 64 && bytes.Contains(cgroup, id)
		}
		if ours {
			found++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return found
}

// daemonProgram: an editor that has a file of the directory open is not ours.
func daemonProgram(cmdline []byte) bool {
	program, _, _ := bytes.Cut(cmdline, []byte{0})
	return slices.Contains([]string{"dockerd", "containerd", "containerd-shim-runc-v2", "containerd-shim"}, filepath.Base(string(program)))
}

// unmount takes away all mounts below dir, the deepest first. It returns how many it
// found.
func unmount(dir string) (found int) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	var below []string
	for line := range strings.Lines(string(text)) {
		// proc(5): the fifth field is the mount point.
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			below = append(below, fields[4])
		}
	}
	slices.Sort(below)
	slices.Reverse(below)
	for _, point := range below {
		_ = syscall.Unmount(point, syscall.MNT_DETACH)
	}
	return len(below)
}
