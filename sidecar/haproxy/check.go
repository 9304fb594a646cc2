package haproxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Problem is one thing that HAProxy said about a config.
type Problem struct {
	Fatal bool
	Line  int // 0 if it named none
	Text  string
}

// String returns it on one line.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Text
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text)
}

// Invalid is a config that HAProxy refuses.
type Invalid struct{ Problems []Problem }

// Error implements error with the first fatal problem and the number of others.
func (e *Invalid) Error() string {
	var fatal []Problem
	for _, p := range e.Problems {
		if p.Fatal {
			fatal = append(fatal, p)
		}
	}
	switch len(fatal) {
	case 0:
		return "HAProxy refuses the config and does not say why"
	case 1:
		return "HAProxy refuses the config: " + fatal[0].String()
	}
	return fmt.Sprintf("HAProxy refuses the config: %s (and %d more)", fatal[0], len(fatal)-1)
}

// Checker is how configs are checked.
type Checker struct {
	Binary string // default: /usr/sbin/haproxy
	// Timeout is how long it may take. Default: 30s.
	Timeout time.Duration
}

// maxSaid bounds what is kept of what HAProxy prints.
const maxSaid = 1 << 20

// Check lets HAProxy look at a config file. It returns its warnings, [*Invalid] if it
// refuses, and another error if it could not be asked.
func (c Checker) Check(ctx context.Context, path string) ([]Problem, error) {
	timeout := cmp.Or(c.Timeout, 30*time.Second)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it took longer than %s", timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, cmp.Or(c.Binary, "/usr/sbin/haproxy"), "-c", "-f", path)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"} // a config can read the environment
	var said capped
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	problems := parseProblems(said.String(), path)
	if _, exited := errors.AsType[*exec.ExitError](err); exited && ctx.Err() == nil {
		return problems, &Invalid{problems}
	}
	if err != nil {
		return nil, fmt.Errorf("checking the config with HAProxy: %w", cmp.Or(context.Cause(ctx), err))
	}
	return problems, nil
}

// Version returns what the program says it is, like "2.6.12-1+deb12u4".
func (c Checker) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, cmp.Or(c.Binary, "/usr/sbin/haproxy"), "-v").Output()
	if err != nil {
		return "", fmt.Errorf("asking HAProxy for its version: %w", err)
	}
	m := versionForm.FindStringSubmatch(string(out))
	if m == nil {
		return "", fmt.Errorf("asking HAProxy for its version: it said %.80q", out)
	}
	return m[1], nil
}

var versionForm = regexp.MustCompile(`(?m)^HA-?Proxy version (\d+\.\d+[^\s]*)`)

// AtLeast reports whether a version is that or newer.
func AtLeast(version string, major, minor int) bool {
	a, rest, _ := strings.Cut(version, ".")
	b := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	return errX == nil && errY == nil && (x > major || x == major && y >= minor)
}

// Like "[ALERT]    (123) : config : parsing [/etc/haproxy/haproxy.cfg:12] : text".
var (
	saidForm  = regexp.MustCompile(`^\[(ALERT|WARNING)\]\s+\(?\d*\)?\s*:\s*(?:config\s*:\s*)?(.*)$`)
	placeForm = regexp.MustCompile(`^(?:parsing )?\[([^\]]*):(\d+)\]\s*:?\s*(.*)$`)
	closing   = regexp.MustCompile(`^(Error\(s\) found in configuration file|Fatal errors found in configuration)`)
)

// parseProblems reads what HAProxy wrote. Lines that belong to the one above are
// added to it.
func parseProblems(said, path string) (list []Problem) {
	open := false
	for line := range strings.Lines(said) {
		line = strings.TrimRight(line, "\r\n")
		m := saidForm.FindStringSubmatch(line)
		if m == nil {
			if text := strings.TrimSpace(line); open && text != "" && text != "^" && strings.HasPrefix(line, " ") && len(list) > 0 {
				list[len(list)-1].Text += " " + text
			}
			continue
		}
		if open = !closing.MatchString(m[2]); !open {
			continue
		}
		p := Problem{Fatal: m[1] == "ALERT", Text: m[2]}
		if at := placeForm.FindStringSubmatch(m[2]); at != nil {
			p.Text = at[3]
			if at[1] == path {
				p.Line, _ = strconv.Atoi(at[2])
			}
		}
		list = append(list, p)
	}
	return list
}

// capped keeps the beginning of what is written to it.
type capped struct{ bytes.Buffer }

// Write implements io.Writer.
func (c *capped) Write(p []byte) (int, error) {
	if room := maxSaid - c.Len(); room > 0 {
		c.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
