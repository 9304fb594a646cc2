package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxReply bounds a reply: the states of 64 members in some 10,000 backends.
const maxReply = 128 << 20

// ask sends one command and reads the reply to its end.
func ask(ctx context.Context, path, command string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return "", fmt.Errorf("asking HAProxy at %s: %w", path, err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err = io.WriteString(c, command+"\n"); err == nil {
		// The master's socket stays open until we have nothing more to ask.
		err = c.(*net.UnixConn).CloseWrite()
	}
	var reply []byte
	if err == nil {
		reply, err = io.ReadAll(io.LimitReader(c, maxReply+1))
	}
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && len(reply) > maxReply:
		err = fmt.Errorf("the reply is longer than %d bytes", maxReply)
	case err == nil && strings.TrimSpace(string(reply)) == "":
		err = errors.New("the reply is empty")
	}
	if err != nil {
		return "", fmt.Errorf("asking HAProxy at %s: %s: %w", path, command, err)
	}
	return string(reply), nil
}

// Master is the path of a master's socket, of HAProxy started with -W and -S.
type Master string

// Processes is who works.
type Processes struct {
	Workers []int // of the latest config
	Old     []int // finishing their connections
	Failed  int   // reloads that failed since the last that did not
}

var (
	failedForm = regexp.MustCompile(`\[failed: (\d+)\]`)
	workerForm = regexp.MustCompile(`^(\d+)\s+worker\s`)
	masterForm = regexp.MustCompile(`^\d+\s+master\s`)
)

// Processes asks the master for its workers.
func (m Master) Processes(ctx context.Context) (p Processes, err error) {
	reply, err := ask(ctx, string(m), "show proc")
	if err != nil {
		return p, err
	}
	if p, err = parseProcesses(reply); err != nil {
		return p, fmt.Errorf("asking HAProxy at %s: show proc: %w", m, err)
	}
	return p, nil
}

func parseProcesses(reply string) (p Processes, err error) {
	section, master := "", false
	for line := range strings.Lines(reply) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "# "):
			section = line[2:]
		case masterForm.MatchString(line):
			master = true
			if f := failedForm.FindStringSubmatch(line); f != nil {
				p.Failed, err = strconv.Atoi(f[1])
			}
		case workerForm.MatchString(line):
			var pid int
			pid, err = strconv.Atoi(workerForm.FindStringSubmatch(line)[1])
			switch section {
			case "workers":
				p.Workers = append(p.Workers, pid)
			case "old workers":
				p.Old = append(p.Old, pid)
			}
		}
		if err != nil {
			return Processes{}, err
		}
	}
	if !master {
		return Processes{}, fmt.Errorf("it names no master: %.80q", reply)
	}
	return p, nil
}

// Stats is the path of a stats socket.
type Stats string

// PID asks which worker answers.
func (s Stats) PID(ctx context.Context) (int, error) {
	reply, err := ask(ctx, string(s), "show info")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(reply) {
		if text, ok := strings.CutPrefix(line, "Pid: "); ok {
			if pid, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && pid > 0 {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("asking HAProxy at %s: show info: it names no pid", s)
}
