package agent

import (
	"bytes"
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// interfaceName is what a network interface may be called here: nothing that a command
// could take for an option. See dev_valid_name in Linux's net/core/dev.c.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@=+-]{0,14}$`)

// unknownAge is the age of a handshake that nobody knows of.
const unknownAge = -time.Second

// ValidInterface tells whether TunnelAge can ask about an interface of this name.
func ValidInterface(name string) bool { return interfaceName.MatchString(name) }

// TunnelAge returns a function that finds out how long ago a WireGuard interface last
// shook hands with a peer. It asks the command wg, which needs the permission to look;
// without it, or without wg, the age is not known: negative.
func TunnelAge(name string) func(context.Context) time.Duration {
	return func(ctx context.Context) time.Duration {
		if !ValidInterface(name) {
			return unknownAge
		}
		cmd := exec.CommandContext(ctx, "wg", "show", name, "latest-handshakes")
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err != nil {
			return unknownAge
		}
		return handshakeAge(out, time.Now())
	}
}

// handshakeAge reads lines of a peer's key and a time in seconds since 1970, 0 for never
// (wg(8), latest-handshakes). The latest counts.
func handshakeAge(out []byte, now time.Time) time.Duration {
	latest := int64(0)
	for line := range bytes.Lines(out) {
		fields := bytes.Fields(line)
		if len(fields) != 2 {
			continue
		}
		if at, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
			latest = max(latest, at)
		}
	}
	if latest == 0 {
		return unknownAge
	}
	return max(0, now.Sub(time.Unix(latest, 0)))
}
