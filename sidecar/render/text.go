package render

import (
	"fmt"
	"strings"
	"time"
)

// text is lines, and what each of them comes from.
type text struct {
	b       strings.Builder
	origins []string
	origin  string
}

// about says what the lines from now on come from.
func (t *text) about(format string, args ...any) { t.origin = fmt.Sprintf(format, args...) }

// line adds one line, indented.
func (t *text) line(format string, args ...any) { t.flush("    " + fmt.Sprintf(format, args...)) }

// section begins a section, with a comment above it.
func (t *text) section(name, format string, args ...any) {
	t.flush("")
	t.flush("# " + fmt.Sprintf(format, args...))
	t.flush(name)
}

// comment explains the lines below it.
func (t *text) comment(format string, args ...any) { t.line("# "+format, args...) }

func (t *text) flush(line string) {
	t.b.WriteString(line)
	t.b.WriteByte('\n')
	t.origins = append(t.origins, t.origin)
}

// escape writes any text as one word: HAProxy's manual, section 2.2, "quoting and
// escaping". Text with a NUL byte must not come here.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-/:=?&+,^;*|[]()@~", c) >= 0
}

// span writes a duration as HAProxy reads it, never zero and never beyond its timers.
func span(d time.Duration) string {
	d = min(max(d, time.Millisecond), maxDuration)
	switch {
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", (d+time.Millisecond-1)/time.Millisecond)
}

// orNever is span, with negative meaning as long as can be.
func orNever(d time.Duration) string {
	if d < 0 {
		return span(maxDuration)
	}
	return span(d)
}
