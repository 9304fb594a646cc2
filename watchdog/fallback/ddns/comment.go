package ddns

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/edgeward/edgeward/watchdog/records"
)

// Stamp is what the comment of a record says of who wrote it.
type Stamp struct {
	// Home is whose domain it is part of. Epochs of different homes have nothing to do
	// with each other.
	Home string
	// Epoch is that of the lease by which it was written.
	Epoch uint64
	// By is the home that wrote it. Default: Home.
	By string
}

// The words of a stamp, after the marker that package records knows.
const (
	wordFallback = "fallback"
	keyHome      = "home="
	keyEpoch     = "epoch="
	keyBy        = "by="
)

// String returns the stamp as it stands in a comment, as in
// "edgeward fallback home=cellar epoch=7 by=attic".
func (s Stamp) String() string {
	text := fmt.Sprintf("%s %s %s%s %s%d", records.Word, wordFallback, keyHome, s.Home, keyEpoch, s.Epoch)
	if s.By != "" && s.By != s.Home {
		text += " " + keyBy + s.By
	}
	return text
}

// CheckHome reports an id that a stamp cannot hold.
func CheckHome(id string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	}
	if id == "" || len(id) > 24 || strings.ContainsFunc(id, func(r rune) bool { return !plain(r) }) {
		return fmt.Errorf("home id %q: want at most 24 letters, digits, dots, hyphens and underscores, for it stands in the comments of records", id)
	}
	return nil
}

// ParseComment finds the stamp in a comment, and what else it says. If there are
// several, the one with the highest epoch counts. A stamp that is not whole is none.
func ParseComment(comment string) (s Stamp, rest string, ok bool) {
	words := strings.Fields(comment)
	var others []string
	for len(words) > 0 {
		found, n := stampAt(words)
		if n == 0 {
			others, words = append(others, words[0]), words[1:]
			continue
		}
		if !ok || found.Epoch > s.Epoch {
			s = found
		}
		ok, words = true, words[n:]
	}
	if !ok {
		return Stamp{}, comment, false
	}
	return s, strings.Join(others, " "), true
}

// stampAt reads the stamp that words begin with, and returns how many they are.
func stampAt(words []string) (Stamp, int) {
	if len(words) < 4 || words[0] != records.Word || words[1] != wordFallback {
		return Stamp{}, 0
	}
	home, isHome := strings.CutPrefix(words[2], keyHome)
	number, isEpoch := strings.CutPrefix(words[3], keyEpoch)
	epoch, err := strconv.ParseUint(number, 10, 64)
	if !isHome || !isEpoch || err != nil || CheckHome(home) != nil {
		return Stamp{}, 0
	}
	s := Stamp{Home: home, Epoch: epoch, By: home}
	if len(words) > 4 {
		if by, isBy := strings.CutPrefix(words[4], keyBy); isBy && CheckHome(by) == nil {
			s.By = by
			return s, 5
		}
	}
	return s, 4
}

// FormatComment puts the stamp in the place of the one in a comment, or of the bare
// marker, or at its end. limit is how many characters there may be; 0 means
// records.MaxComment. It is an error if what else the comment says leaves no room.
func FormatComment(comment string, s Stamp, limit int) (string, error) {
	_, rest, ok := ParseComment(comment)
	if !ok {
		var others []string
		for word := range strings.FieldsSeq(comment) {
			if word != records.Word {
				others = append(others, word)
			}
		}
		rest = strings.Join(others, " ")
	}
	text := s.String()
	if rest != "" {
		text = rest + " " + text
	}
	limit = cmp.Or(limit, records.MaxComment)
	if n := utf8.RuneCountInString(text); n > limit {
		return "", fmt.Errorf("the comment would have %d characters with %q, and the plan allows %d: shorten it", n, s, limit)
	}
	return text, nil
}
