package runtime

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxy"
)

// Worker is which process of HAProxy answers. Another one has states of its own.
type Worker struct {
	PID int
	// Started is when, to the second.
	Started time.Time
	Version string
	// Stopping says that it only finishes its connections: another one takes the
	// new ones.
	Stopping bool
}

// Same reports whether two answers came from one process. A pid can come again.
func (w Worker) Same(o Worker) bool { return w.PID == o.PID && w.Started.Equal(o.Started) }

// Reply is what was read in one connection.
type Reply struct {
	Worker  Worker
	Servers []haproxy.State
	Said    []string // what HAProxy said to commands, for people
}

// last is asked at the end of each call. Its answer is short and never empty, so what
// ends otherwise was cut off.
const last = "show cli level"

// identity comes before it: which worker has answered.
const identity = "show info;" + last

// levels are the answers to last, and whether they let us write.
var levels = map[string]bool{"[6]: admin": true, "[6]: operator": false, "[6]: user": false}

// parse reads the answer to commands, blocks times "show servers state", and
// identity. It takes all of it or nothing.
func parse(text string, blocks int) (r Reply, admin bool, err error) {
	body, level := "", text
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		body, level = text[:i+1], text[i+1:]
	}
	admin, complete := levels[level]
	switch {
	case text == "":
		return r, false, errors.New("the answer is empty")
	case !complete:
		return r, false, fmt.Errorf("the answer is cut short, or of another form: it ends in %.80q", tail(text))
	}
	seen, known := 0, false
	for {
		body = strings.TrimLeft(body, "\n")
		if body == "" {
			break
		}
		block, rest, ended := strings.Cut(body, "\n\n")
		switch {
		case !ended:
			return Reply{}, false, fmt.Errorf("a part of the answer has no end: %.80q", block)
		case strings.HasPrefix(block, "1\n#"):
			list, err := haproxy.ParseStates(block + "\n\n")
			if err != nil {
				return Reply{}, false, err
			}
			r.Servers = append(r.Servers, list...)
			seen++
		case strings.HasPrefix(block, "Name: HAProxy\n") && !known:
			if r.Worker, err = parseInfo(block); err != nil {
				return Reply{}, false, err
			}
			known = true
		case saidForm(block):
			r.Said = append(r.Said, block)
		default:
			return Reply{}, false, fmt.Errorf("a part of the answer has another form: %.80q", block)
		}
		body = rest
	}
	if seen != blocks || !known {
		return Reply{}, false, fmt.Errorf("parts of the answer are missing: %d of %d with servers, one of the process: %t", seen, blocks, known)
	}
	return r, admin, nil
}

func tail(s string) string { return s[max(0, len(s)-80):] }

// saidForm reports whether a block is one message: "[4]: text", manual of 2.6,
// management guide 9.3, "set severity-output".
func saidForm(s string) bool {
	return len(s) > 4 && s[0] == '[' && s[1] >= '0' && s[1] <= '7' && s[2:4] == "]:"
}

// parseInfo reads "show info".
func parseInfo(block string) (w Worker, err error) {
	fields := map[string]string{}
	for line := range strings.SplitSeq(block, "\n") {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			if name, ok = strings.CutSuffix(line, ":"); !ok { // "node:" may be empty
				return w, fmt.Errorf("show info has a line of another form: %.80q", line)
			}
		}
		if _, twice := fields[name]; twice {
			return w, fmt.Errorf("show info has %.40q twice", name)
		}
		fields[name] = value
	}
	var started int
	var errs [2]error
	w.PID, errs[0] = strconv.Atoi(fields["Pid"])
	started, errs[1] = strconv.Atoi(fields["Start_time_sec"])
	if err := errors.Join(errs[:]...); err != nil || w.PID <= 0 || started <= 0 || fields["Version"] == "" {
		return Worker{}, fmt.Errorf("show info does not say which process it is of: %w", errors.Join(err, errors.New("want Pid, Start_time_sec and Version")))
	}
	w.Started, w.Version, w.Stopping = time.Unix(int64(started), 0), fields["Version"], fields["Stopping"] == "1"
	return w, nil
}
