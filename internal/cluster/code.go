package cluster

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"strings"
)

// A code is 160 bits, for people to carry to the machine that is to join: 80 random
// ones, which the cluster keeps a hash of, and the first 80 of the SHA-256 of the
// authority's certificate, by which the joining machine knows that it talks to the
// right cluster before it has said anything.
type code struct {
	secret    [half]byte
	authority [half]byte
}

const half = 10 // bytes

// letters are Crockford's base 32, in which no two look alike.
var letters = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// errCode says that a text is no code.
var errCode = errors.New("that is no code: want 32 letters and digits, as the other member has shown them")

func newCode(authority []byte) (c code) {
	_, _ = rand.Read(c.secret[:]) // never fails: it ends the program instead
	c.authority = fingerprint(authority)
	return c
}

// fingerprint is what a code says of a certificate, in DER.
func fingerprint(der []byte) [half]byte {
	sum := sha256.Sum256(der)
	return [half]byte(sum[:half])
}

// hash is what the cluster keeps: the secret is random and long, so a plain SHA-256 is
// enough.
func (c code) hash() [sha256.Size]byte { return sha256.Sum256(c.secret[:]) }

// String writes it in groups of four.
func (c code) String() string {
	text := letters.EncodeToString(append(c.secret[:], c.authority[:]...))
	var groups []string
	for ; len(text) > 4; text = text[4:] {
		groups = append(groups, text[:4])
	}
	return strings.Join(append(groups, text), "-")
}

// alike are letters that people take for digits.
var alike = strings.NewReplacer("-", "", " ", "", "\t", "", "\r", "", "\n", "", "O", "0", "I", "1", "L", "1")

// parseCode reads a code as a person types it.
func parseCode(text string) (c code, err error) {
	if len(text) > 200 {
		return c, errCode
	}
	text = alike.Replace(strings.ToUpper(text))
	b, err := letters.DecodeString(text)
	if err != nil || len(b) != 2*half || len(text) != letters.EncodedLen(2*half) {
		return c, errCode
	}
	copy(c.secret[:], b)
	copy(c.authority[:], b[half:])
	return c, nil
}
