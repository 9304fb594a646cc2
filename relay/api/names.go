package api

import "strings"

const maxName = 63

// validName reports whether a token or a health source may be called so: by the
// rule for all names, `[a-z0-9][a-z0-9._-]{0,62}`.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, notName) && !strings.ContainsAny(name[:1], "._-")
}

func notName(r rune) bool {
	return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
}
