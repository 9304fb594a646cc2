package wizard

import (
	"cmp"
	"fmt"
	"strings"
)

// Render returns the Caddyfile for answers in normal form. It names the file with the
// token, and does not hold the token itself.
func Render(a Answers, tokenFile string) string {
	var b strings.Builder
	line := func(depth int, words ...string) {
		b.WriteString(strings.Repeat("\t", depth) + strings.Join(words, " ") + "\n")
	}
	line(0, "{")
	line(1, "edge_watchdog {")
	if a.StateDir != "" {
		line(2, "state_dir", quoted(a.StateDir))
	}
	if a.Apply {
		line(2, "apply")
	}
	if a.Preset != "" {
		line(2, "preset", a.Preset)
	}
	if a.API != "" {
		line(2, "api", a.API)
	}
	line(2, "cloudflare zone", cmp.Or(a.Zone, a.Domain), "token_file", quoted(tokenFile))
	line(2, "site", strings.Join(a.Names, " "), "{")
	line(3, "health", a.HealthHost, healthPath, fmt.Sprintf("%q", healthBody))
	line(3, "local", a.Local)
	if a.Relay6 == "" {
		line(3, "path", relayPath, "a", a.Relay)
	} else {
		line(3, "path", relayPath, "a", a.Relay, "aaaa", a.Relay6)
	}
	line(3, "path", proxyPath, "a", a.Home, "proxied canary", a.Canary)
	line(2, "}")
	line(1, "}")
	line(0, "}")
	return b.String()
}

// quoted is a path as one word. It holds no quotes, see plainPath.
func quoted(path string) string {
	if strings.ContainsAny(path, " #") {
		return `"` + path + `"`
	}
	return path
}
