package link

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// alphabet has the letters of codes: Crockford's base 32, in which no two look
// alike.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const (
	codeLetters = 16 // 80 bits
	codeGroup   = 4
	tokenBytes  = 32
)

// NewToken makes a gateway token of 256 random bits.
func NewToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails: it ends the program instead
	return TokenPrefix + hex.EncodeToString(b)
}

// NewCode makes a pairing code of 80 random bits, as [NormalizeCode] writes it.
func NewCode() string {
	b := make([]byte, codeLetters)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)] // 256 is a multiple of 32
	}
	return grouped(string(b))
}

// NormalizeCode brings a code as a person types it into the form XXXX-XXXX-XXXX-XXXX.
// It returns "" for what can be no code.
func NormalizeCode(code string) string {
	if len(code) > 4*codeLetters {
		return ""
	}
	var letters strings.Builder
	for _, r := range strings.ToUpper(code) {
		switch r {
		case '-', ' ', '\t', '\r', '\n':
			continue
		case 'O':
			r = '0'
		case 'I', 'L':
			r = '1'
		}
		if !strings.ContainsRune(alphabet, r) {
			return ""
		}
		letters.WriteRune(r)
	}
	if letters.Len() != codeLetters {
		return ""
	}
	return grouped(letters.String())
}

func grouped(letters string) string {
	var groups []string
	for i := 0; i < len(letters); i += codeGroup {
		groups = append(groups, letters[i:i+codeGroup])
	}
	return strings.Join(groups, "-")
}

// Hash is what is kept of a token or a code. Both are random and long, so that a
// plain SHA-256 is enough.
func Hash(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }
