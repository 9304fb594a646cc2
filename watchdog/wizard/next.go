package wizard

import (
	"fmt"
	"strings"
)

// Next says what is left to do, for answers in normal form.
func Next(a Answers, f Findings, w Written) string {
	var b strings.Builder
	step := 0
	say := func(format string, args ...any) {
		step++
		fmt.Fprintf(&b, "\n%d. "+format+"\n", append([]any{step}, args...)...)
	}
	config := shellQuoted(w.Config)
	hosts := a.HealthHost
	if a.Canary != a.HealthHost {
		hosts += " and " + a.Canary
	}
	say("At home, serve %s with a certificate, and answer the health check there. With nginx:\n\n%s\n   With Caddy:\n\n%s",
		hosts, indent(nginxSnippet()), indent(caddySnippet()))
	say("See whether all is as it has to be. It changes nothing:\n\n   edge-watchdog check --config %s", config)
	if a.Apply {
		say("Start it. It may write, for the Caddyfile says apply:\n\n   edge-watchdog run --config %s", config)
	} else {
		say("Start it. Without apply it writes nothing and says what it would do:\n\n   edge-watchdog run --config %s", config)
		say("When you trust it, write apply into edge_watchdog { } and load that:\n\n   edge-watchdog reload --config %s", config)
	}
	switch {
	case f.Zone.ID == "": // nobody has looked
		say("Let it have the records, which it leaves alone until they carry its marker:\n\n   edge-watchdog adopt %s", a.Names[0])
	case len(f.Adopt) > 0:
		say("Let it have these records, which it leaves alone until then:\n\n%s\n   edge-watchdog adopt %s", indent(toAdopt(f)), a.Names[0])
	}
	return b.String()
}

func toAdopt(f Findings) string {
	var b strings.Builder
	for _, r := range f.Adopt {
		fmt.Fprintf(&b, "%s %s %s\n", r.Name, r.Type, r.Content)
	}
	return b.String()
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString("   ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// The snippets are for the server of a host that is there already, as it may be one
// that visitors use.

func nginxSnippet() string {
	return fmt.Sprintf(`location = %s {
	default_type text/plain;
	add_header Cache-Control "no-store, max-age=0" always;
	return 200 %q;
}
`, healthPath, healthBody)
}

// caddySnippet spells the end of the line by a heredoc: within quotes a Caddyfile
// has no escape for it.
func caddySnippet() string {
	return fmt.Sprintf(`handle %s {
	header Cache-Control "no-store, max-age=0"
	respond <<OK
		%s
		OK 200
}
`, healthPath, healthBody)
}
