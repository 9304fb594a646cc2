// Package secret keeps tokens and passwords out of what people read.
//
// A String prints as [redacted] however it is printed, logged or marshalled; only
// Reveal gives it away, so a search for Reveal finds every place that does.
//
//	token, notice, err := secret.Read("/etc/edgeward/cf_token")
//	if err != nil {
//		return err
//	}
//	request.Header.Set("Authorization", "Bearer "+token.Reveal())
package secret

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

const redacted = "[redacted]"

// String is a secret. The zero value is none.
type String struct {
	// Behind a pointer, because fmt looks into unexported fields without asking
	// any method: there it finds an address.
	p *string
}

// New makes a secret of text.
func New(text string) String { return String{&text} }

// Reveal returns the secret itself.
func (s String) Reveal() string {
	if s.p == nil {
		return ""
	}
	return *s.p
}

// IsZero reports whether there is no secret, or an empty one.
func (s String) IsZero() bool { return s.Reveal() == "" }

// String returns [redacted].
func (s String) String() string { return redacted }

// GoString returns [redacted].
func (s String) GoString() string { return redacted }

// Format prints [redacted] for every verb.
func (s String) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns [redacted].
func (s String) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns "[redacted]".
func (s String) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// LogValue returns [redacted].
func (s String) LogValue() slog.Value { return slog.StringValue(redacted) }

// Scrub replaces each secret in text, also where it was escaped for a URL.
func Scrub(text string, secrets ...String) string {
	var forms []string
	for _, s := range secrets {
		if v := s.Reveal(); v != "" {
			forms = append(forms, v, url.QueryEscape(v), url.PathEscape(v))
		}
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, form := range slices.Compact(forms) {
		text = strings.ReplaceAll(text, form, redacted)
	}
	return text
}
