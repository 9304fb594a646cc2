package writeback

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// outFormat has rsync say one line for each thing that it would change.
const outFormat = "--out-format=%i %l %n"

// item is one such line.
type item struct {
	// update is the first character of %i: < for content, c for created here, h for a
	// hard link, . for attributes alone, * for a message.
	update byte
	kind   Kind
	new    bool // there is no such thing at the other home
	size   int64
	name   string // without a slash at its end
}

// deleted reports whether it is something that is only at the other home.
func (i item) deleted() bool { return i.update == '*' }

var (
	// rsync(1), --itemize-changes.
	itemLine = regexp.MustCompile(`^([<>ch.])([fdLDS])([.+ ?a-zA-Z]{9,10}) (\d+) (.+)$`)
	goneLine = regexp.MustCompile(`^\*deleting +(\d+) (.+)$`)
	// What stands in the place of a line if a directory is in the way of a file.
	barredLine = regexp.MustCompile(`^(?:cannot delete non-empty directory|could not make way for [a-z ]+): (.+)$`)
	// What a home without root cannot make: devices and the like, which hold no data.
	remark  = regexp.MustCompile(`^skipping non-regular file `)
	escaped = regexp.MustCompile(`\\#[0-3][0-7]{2}`)
)

// parseItem reads a line.
func parseItem(line string) (item, error) {
	if m := goneLine.FindStringSubmatch(line); m != nil {
		return item{update: '*', kind: dirBySlash(m[2]), name: unescape(strings.TrimSuffix(m[2], "/"))}, check(m[2])
	}
	if m := barredLine.FindStringSubmatch(line); m != nil {
		return item{update: '<', kind: File, name: unescape(strings.TrimSuffix(m[1], "/"))}, check(m[1])
	}
	m := itemLine.FindStringSubmatch(line)
	if m == nil {
		return item{}, fmt.Errorf("rsync says %.80q, which is no change of a file", line)
	}
	size, err := strconv.ParseInt(m[4], 10, 64)
	if err != nil {
		return item{}, fmt.Errorf("rsync says %.80q: %w", line, err)
	}
	i := item{update: m[1][0], kind: kinds[m[2][0]], new: strings.HasPrefix(m[3], "+++"), size: size}
	i.name = unescape(m[5])
	if i.kind == Dir {
		i.name = strings.TrimSuffix(i.name, "/")
	}
	return i, check(m[5])
}

var kinds = map[byte]Kind{'f': File, 'd': Dir, 'L': Link, 'D': Other, 'S': Other}

func dirBySlash(name string) Kind {
	if strings.HasSuffix(name, "/") {
		return Dir
	}
	return File
}

var errName = errors.New("rsync names a file outside of the data")

// check refuses a name that is not below the data.
func check(escapedName string) error {
	name := strings.TrimSuffix(unescape(escapedName), "/")
	if name != "." && !local(name) {
		return errName
	}
	return nil
}

// unescape undoes how rsync writes bytes that are not printable: \#ooo. A backslash
// that would look like one is written that way, too.
func unescape(name string) string {
	return escaped.ReplaceAllStringFunc(name, func(code string) string {
		n, _ := strconv.ParseUint(code[2:], 8, 8) // three octal digits below 400
		return string([]byte{byte(n)})
	})
}

// literal is a pattern that matches one name at the top of the data and nothing else.
// rsync takes a backslash for itself unless the pattern has a wildcard.
func literal(name string) string {
	if strings.ContainsAny(name, `*?[`) {
		name = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
	}
	return "/" + name
}
