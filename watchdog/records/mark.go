package records

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Word is the marker of a record that is ours. It stands in the comment as a
// word of its own, in lower case.
const Word = "edgeward"

// MaxComment is how many characters a comment may have on Cloudflare's Free
// plan.
const MaxComment = 100

// Mark is a marker as it stands in a comment: the word alone, or the word, a colon
// and more, as in "edgeward:epoch=7".
type Mark struct {
	// Extra is what follows the colon. It holds no white space, comma or semicolon.
	Extra string
}

// String returns the marker as it is written into a comment.
func (m Mark) String() string {
	if m.Extra == "" {
		return Word
	}
	return Word + ":" + m.Extra
}

// ParseMark finds the marker in a comment. Other words may stand around it, kept
// apart by white space, comma or semicolon; the first marker counts.
func ParseMark(comment string) (Mark, bool) {
	for word := range strings.FieldsFuncSeq(comment, separates) {
		if rest, ok := strings.CutPrefix(word, Word); ok && (rest == "" || rest[0] == ':') {
			return Mark{Extra: strings.TrimPrefix(rest, ":")}, true
		}
	}
	return Mark{}, false
}

// epochIs is how an epoch stands behind the colon.
const epochIs = "epoch="

// Epoch is that of the lease by which the record was last written. None: it was not
// written by a lease.
func (m Mark) Epoch() (epoch uint64, ok bool) {
	text, ok := strings.CutPrefix(m.Extra, epochIs)
	if !ok {
		return 0, false
	}
	if _, err := fmt.Sscanf(text, "%d", &epoch); err != nil || fmt.Sprint(epoch) != text {
		return 0, false
	}
	return epoch, true
}

// Stamp returns a comment whose marker says the epoch. A comment without a marker, one
// whose marker says something else, and one that would be longer than limit (0 means
// MaxComment) stays as it is.
func Stamp(comment string, epoch uint64, limit int) string {
	m, ok := ParseMark(comment)
	if _, stamped := m.Epoch(); !ok || m.Extra != "" && !stamped {
		return comment
	}
	next := Mark{Extra: epochIs + fmt.Sprint(epoch)}
	at := 0
	for word := range strings.FieldsFuncSeq(comment, separates) {
		at += strings.Index(comment[at:], word)
		if word == m.String() {
			break
		}
		at += len(word)
	}
	stamped := comment[:at] + next.String() + comment[at+len(m.String()):]
	if limit == 0 {
		limit = MaxComment
	}
	if utf8.RuneCountInString(stamped) > limit {
		return comment
	}
	return stamped
}

// separates the words of a comment.
func separates(r rune) bool { return r == ',' || r == ';' || r <= ' ' || r == '\u00a0' }

// Adopt returns the comment with the marker at its end, or as it is if it has
// one. It is an error if the result were longer than limit; 0 means MaxComment.
func Adopt(comment string, m Mark, limit int) (string, error) {
	if _, ok := ParseMark(comment); ok {
		return comment, nil
	}
	if strings.ContainsFunc(m.Extra, separates) {
		return "", fmt.Errorf("the marker %q holds a separator", m)
	}
	adopted := m.String()
	if comment != "" {
		adopted = comment + " " + adopted
	}
	if limit == 0 {
		limit = MaxComment
	}
	if n := utf8.RuneCountInString(adopted); n > limit {
		return "", fmt.Errorf("the comment would have %d characters with the marker %q, and the plan allows %d: shorten it", n, m, limit)
	}
	return adopted, nil
}
