package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

var (
	ownerNames = []string{"api", "file"}
	kindNames  = []string{"tls", "tcp", "udp", "http"}
)

// String returns "api" or "file".
func (o Owner) String() string { return textOf(ownerNames, o) }

// MarshalText implements encoding.TextMarshaler.
func (o Owner) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Owner) UnmarshalText(b []byte) (err error) {
	*o, err = parse[Owner]("owner", ownerNames, b)
	return err
}

// String returns "tls", "tcp", "udp" or "http".
func (k Kind) String() string { return textOf(kindNames, k) }

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(b []byte) (err error) {
	*k, err = parse[Kind]("kind", kindNames, b)
	return err
}

func textOf[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("invalid(%d)", uint8(v))
}

func parse[T ~uint8](what string, names []string, b []byte) (T, error) {
	i := slices.Index(names, string(b))
	if i < 0 {
		return 0, fmt.Errorf("reading %s %q: want one of %s", what, b, strings.Join(names, ", "))
	}
	return T(i), nil
}

// Duration is a time.Duration that is written "90s" in JSON, "off" if it is
// negative and "" if it is zero, which means the default.
type Duration time.Duration

// off is the negative duration that "off" is read as.
const off Duration = -1

// String returns what UnmarshalText reads.
func (d Duration) String() string {
	switch {
	case d < 0:
		return "off"
	case d == 0:
		return ""
	}
	return time.Duration(d).String()
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It refuses "0s": some would
// mean the default by it, and some off.
func (d *Duration) UnmarshalText(b []byte) error {
	switch string(b) {
	case "":
		*d = 0
		return nil
	case "off":
		*d = off
		return nil
	}
	n, err := time.ParseDuration(string(b))
	if err != nil || n <= 0 {
		return fmt.Errorf(`reading duration %q: want one like 90s, "off", or "" for the default`, b)
	}
	*d = Duration(n)
	return nil
}
