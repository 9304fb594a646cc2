package cloudflare

import (
	"fmt"
	"strings"

	"github.com/edgeward/edgeward/watchdog/records"
)

// isID reports whether s can stand in a path: the library pastes ids into it as
// they are.
func isID(s string) bool {
	return len(s) == 32 && !strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

func checkID(op, id string) error {
	if !isID(id) {
		return &Error{Kind: KindInvalid, Op: op, Detail: fmt.Sprintf("id %.40q: want 32 lower-case hexadecimal digits", id)}
	}
	return nil
}

// isName reports whether s is a DNS name as the API takes it: in punycode, with at
// least two labels, of which the first may be a wildcard.
func isName(s string) bool {
	s = strings.TrimPrefix(s, "*.")
	if len(s) > 251 || !strings.Contains(s, ".") {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, strange) {
			return false
		}
	}
	return true
}

// strange reports whether a character has no place in a lower-case name.
func strange(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// checkName returns a name as the API shows it.
func checkName(op, name string) (string, error) {
	name = records.Name(name)
	if !isName(name) {
		return "", &Error{Kind: KindInvalid, Op: op, Detail: fmt.Sprintf("name %.80q: want a DNS name in punycode, as www.example.com or *.example.com", name)}
	}
	return name, nil
}
