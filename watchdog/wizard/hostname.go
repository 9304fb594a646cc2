package wizard

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/idna"
)

// Bounds of RFC 1035, section 2.3.4, in the form without a trailing dot.
const (
	maxName  = 253
	maxLabel = 63
)

// hostname returns a name as DNS has it: in lower case, without trailing dots, an
// international one in its xn-- form. It takes letters, digits and hyphens only, RFC
// 1123 section 2.1, at least two labels, and nothing that could be an address.
func hostname(text string) (string, error) {
	name := strings.ToLower(strings.TrimRight(strings.TrimSpace(text), "."))
	if strings.ContainsFunc(name, func(r rune) bool { return r > '~' }) || strings.HasPrefix(name, "xn--") || strings.Contains(name, ".xn--") {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", fmt.Errorf("%.80q is not an international name", text)
		}
		name = ascii
	}
	if err := ldh(name); err != nil {
		return "", fmt.Errorf("%.80q: %w", text, err)
	}
	return name, nil
}

func ldh(name string) error {
	labels := strings.Split(name, ".")
	if len(labels) < 2 || len(name) > maxName {
		return fmt.Errorf("want at least two labels and at most %d characters, like example.com", maxName)
	}
	for _, label := range labels {
		switch {
		case label == "" || len(label) > maxLabel:
			return fmt.Errorf("want labels of 1 to %d characters", maxLabel)
		case label == "*":
			return errors.New("a wildcard can only be the first label of a name that moves")
		case strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
			return errors.New("want a name alone, of letters, digits and hyphens")
		case label[0] == '-' || label[len(label)-1] == '-':
			return fmt.Errorf("the label %s begins or ends with a hyphen", label)
		}
	}
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return errors.New("want a name, not an address")
	}
	return nil
}
