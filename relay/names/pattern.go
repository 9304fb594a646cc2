package names

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// Bounds of RFC 1035, section 2.3.4, in the form without a trailing dot.
const (
	maxName  = 253
	maxLabel = 63
)

// international is idna.Lookup, except that it leaves the check of ASCII
// letters to us: underscores are common in names of services.
var international = idna.New(
	idna.MapForLookup(),
	idna.BidiRule(),
	idna.CheckHyphens(true),
	idna.CheckJoiners(true),
	idna.StrictDomainName(false),
	idna.Transitional(false),
)

// Normalise checks a pattern and returns the form that the table uses: lower
// case, A-labels, no trailing dot. A pattern in that form stays as it is.
func Normalise(pattern string) (string, error) {
	switch pattern {
	case "":
		return "", errors.New("the name is empty")
	case "*":
		return pattern, nil
	}
	name, isWild := strings.CutPrefix(pattern, "*.")
	if strings.Contains(name, "*") {
		return "", errors.New(`a wildcard must be the whole first label, as in "*.example.com"`)
	}
	name, err := ascii(strings.TrimSuffix(name, "."))
	if err != nil {
		return "", err
	}
	if err := checkName(name); err != nil {
		return "", err
	}
	if isWild {
		name = "*." + name
	}
	if len(name) > maxName {
		return "", fmt.Errorf("the name is longer than %d bytes", maxName)
	}
	return name, nil
}

// ascii returns the name in lower case and with A-labels.
func ascii(name string) (string, error) {
	lower := asciiLower(name)
	if isASCII(lower) && !strings.HasPrefix(lower, "xn--") && !strings.Contains(lower, ".xn--") {
		return lower, nil
	}
	out, err := international.ToASCII(lower)
	if err != nil {
		return "", fmt.Errorf("not an international name: %w", err)
	}
	return out, nil
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func checkName(name string) error {
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return errors.New("an IP address is no server name: clients that dial one send no name, route them by \"*\"")
	}
	if strings.Contains(name, ":") {
		return errors.New("a name holds no port: the listener has it")
	}
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return err
		}
	}
	return nil
}

// checkLabel takes letters, digits, hyphens inside (RFC 1123, section 2.1) and
// underscores.
func checkLabel(label string) error {
	switch {
	case label == "":
		return errors.New("a label is empty")
	case len(label) > maxLabel:
		return fmt.Errorf("label %q is longer than %d bytes", label, maxLabel)
	case label[0] == '-' || label[len(label)-1] == '-':
		return fmt.Errorf("label %q begins or ends with a hyphen", label)
	}
	for _, c := range label {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("label %q holds %q", label, c)
		}
	}
	return nil
}
