package agentcheck

import (
	"strings"

	"github.com/edgeward/edgeward/sidecar/follow/plan"
)

// maxReason bounds what is said of why: HAProxy keeps some 128 bytes of it.
const maxReason = 100

// Words says a role in HAProxy's protocol; nothing for one to leave as it is. Down says
// that a member that is to stop is down, and not taken out by people.
func Words(r plan.Role, down bool, why string) string {
	switch r {
	case plan.Serve:
		return "up ready 100%"
	case plan.Rest:
		return "drain"
	case plan.Stop:
		if down {
			return "down #" + clean(why)
		}
		return "maint"
	}
	return ""
}

// clean keeps a reason within its line.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), maxReason)]
}
