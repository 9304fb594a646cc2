package link_test

import (
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/link"
)

func TestNormalizeCode(t *testing.T) {
	for _, tc := range []struct{ typed, want string }{
		{"0123-4567-89AB-CDEF", "0123-4567-89AB-CDEF"},
		{" 0123 4567 89ab cdef\n", "0123-4567-89AB-CDEF"},
		{"o1l3-4567-89ab-cdef", "0113-4567-89AB-CDEF"},
		{"Oi23456789abcdef", "0123-4567-89AB-CDEF"},
		{"0123-4567-89AB-CDE", ""},
		{"0123-4567-89AB-CDEFG", ""},
		{"0123-4567-89AB-CDEU", ""}, // no U: nobody is to read a word
		{"0123-4567-89AB-CDE!", ""},
		{"0123-4567-89AB-CDÉF", ""},
		{"", ""},
		{strings.Repeat("-", 100) + "0123456789ABCDEF", ""},
	} {
		if got := link.NormalizeCode(tc.typed); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.typed, got, tc.want)
		}
	}
}

func TestSecretsAreNew(t *testing.T) {
	seen := map[string]bool{}
	letters := map[rune]bool{}
	for range 200 {
		code, token := link.NewCode(), link.NewToken()
		if seen[code] || seen[token] {
			t.Fatal("one came twice")
		}
		seen[code], seen[token] = true, true
		if link.NormalizeCode(code) != code {
			t.Fatalf("%s is not as NormalizeCode writes it", code)
		}
		if !strings.HasPrefix(token, link.TokenPrefix) || len(token) != len(link.TokenPrefix)+64 {
			t.Fatalf("%q is no token", token)
		}
		for _, r := range code {
			letters[r] = true
		}
	}
	if len(letters) != 33 {
		t.Errorf("codes use %d letters with the dash, want 33", len(letters))
	}
	if link.Hash("a") == link.Hash("b") {
		t.Error("Hash does not tell secrets apart")
	}
}
