package firewall

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Session is how the operator is logged in.
type Session struct {
	Source     netip.Addr `json:"source"`
	SourcePort uint16     `json:"source_port"`
	Port       uint16     `json:"port"` // of SSH on this machine
}

// IsZero tells whether no session is known.
func (s Session) IsZero() bool { return s == Session{} }

// ParseSession reads SSH_CONNECTION: the client's address and port, and the
// server's (sshd, ssh(1) under ENVIRONMENT).
func ParseSession(connection string) (Session, error) {
	f := strings.Fields(connection)
	if len(f) != 4 {
		return Session{}, fmt.Errorf("SSH_CONNECTION %q: want two addresses, each with its port", connection)
	}
	source, err := netip.ParseAddr(f[0])
	if err != nil {
		return Session{}, fmt.Errorf("reading SSH_CONNECTION: %w", err)
	}
	from, err := strconv.ParseUint(f[1], 10, 16)
	if err != nil {
		return Session{}, fmt.Errorf("reading SSH_CONNECTION: %w", err)
	}
	to, err := strconv.ParseUint(f[3], 10, 16)
	if err != nil {
		return Session{}, fmt.Errorf("reading SSH_CONNECTION: %w", err)
	}
	return Session{source.Unmap().WithZone(""), uint16(from), uint16(to)}, nil
}

// FindSession returns the SSH session that process pid belongs to: by its own
// environment or the nearest ancestor's, because sudo takes SSH_CONNECTION away.
// It returns the zero Session if there is none to be seen.
func FindSession(readFile func(string) ([]byte, error), pid int) (Session, error) {
	for range 64 { // no tree of processes is that deep, and a broken one ends
		env, _ := readFile(fmt.Sprintf("/proc/%d/environ", pid)) // of another user: look further up
		for pair := range strings.SplitSeq(string(env), "\x00") {
			if value, found := strings.CutPrefix(pair, "SSH_CONNECTION="); found {
				return ParseSession(value)
			}
		}
		if pid = parent(readFile, pid); pid <= 1 {
			break
		}
	}
	return Session{}, nil
}

// parent returns 0 if there is none to be seen. The name of a process may hold
// anything, brackets and spaces too; it ends at the last bracket (proc(5)).
func parent(readFile func(string) ([]byte, error), pid int) int {
	stat, err := readFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	text := string(stat)
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[1])
	return n
}
