package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Limits of Discord, in characters: Resources/Message, "Embed Limits", and the
// content of a message. Counted as UTF-16, which is never less.
const (
	discordContent   = 2000
	discordTitle     = 256
	discordText      = 1500 // 4096 are allowed; the paths need room too
	discordFields    = 25
	discordFieldName = 256
	discordField     = 1024
	discordFooter    = 2048
	discordAll       = 6000
)

// discord posts an embed to a webhook.
type discord struct{ poster }

type discordBody struct {
	Embeds []embed `json:"embeds"`
	// AllowedMentions is empty: no text from outside may call anybody.
	AllowedMentions struct {
		Parse []string `json:"parse"`
	} `json:"allowed_mentions"`
}

type embed struct {
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	Color       int          `json:"color"`
	Timestamp   time.Time    `json:"timestamp"`
	Fields      []embedField `json:"fields,omitempty"`
	Footer      *embedFooter `json:"footer,omitempty"`
}

type embedField struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Inline bool   `json:"inline,omitempty"`
}

type embedFooter struct {
	Text string `json:"text"`
}

var colors = map[Severity]int{Info: 0x3498db, Warning: 0xf1a40f, Critical: 0xe03131, Resolved: 0x2f9e44}

// Send implements Channel.
func (d *discord) Send(ctx context.Context, m Message) error {
	var b discordBody
	b.Embeds, b.AllowedMentions.Parse = []embed{newEmbed(m)}, []string{}
	body, err := json.Marshal(b)
	if err != nil {
		return &PermanentError{Reason: "it cannot be written as JSON"}
	}
	return d.post(ctx, body, http.Header{}, discordRetry)
}

// discordRetry finds what the body of a 429 says, in seconds.
func discordRetry(r reply) time.Duration {
	var b struct {
		RetryAfter float64 `json:"retry_after"`
	}
	if r.status != http.StatusTooManyRequests || json.Unmarshal(r.body, &b) != nil {
		return 0
	}
	return seconds(b.RetryAfter)
}

// newEmbed keeps within the limits: the details give way first.
func newEmbed(m Message) embed {
	e := embed{
		Title:     cut(escape(m.Title()), discordTitle),
		Color:     colors[m.Severity],
		Timestamp: m.At.UTC(),
	}
	budget := discordAll - units(e.Title)
	if m.Incident != "" {
		e.Footer = &embedFooter{cut("Incident "+oneLine(m.Incident), discordFooter)}
		budget -= units(e.Footer.Text)
	}
	about := m.remarks()
	if m.Detail != "" {
		about = append(about, m.Detail)
	}
	e.Description = cut(escape(strings.Join(about, "\n")), discordText)
	budget -= units(e.Description)
	for _, f := range m.fields() {
		cost := units(f.Name) + units(f.Value)
		if len(e.Fields) == discordFields || cost > budget {
			break
		}
		budget -= cost
		e.Fields = append(e.Fields, f)
	}
	return e
}

func (m Message) fields() (list []embedField) {
	add := func(name, value string, inline bool) {
		if value != "" {
			list = append(list, embedField{cut(escape(name), discordFieldName), cut(escape(value), discordField), inline})
		}
	}
	if m.Kind == SwitchFailed || m.Kind == ProviderRefusing {
		add("Stays on", named(m.From), true)
		add("Wanted", named(m.To), true)
	} else {
		add("From", named(m.From), true)
		add("To", named(m.To), true)
	}
	add("Time", utc(m.At), true)
	add("Reason", m.Reason, false)
	for _, p := range m.Paths {
		value := p.Value.String() + p.roles() + "\n" + p.addresses() + "\n" + oneLine(p.Detail)
		add(light(p.Value)+" "+named(p.Name, "path"), strings.TrimSpace(strings.ReplaceAll(value, "\n\n", "\n")), true)
	}
	return list
}

func light(v evidence.Value) string {
	switch v {
	case evidence.Good:
		return "🟢"
	case evidence.Bad:
		return "🔴"
	}
	return "⚪"
}

// escape keeps names such as *.example.com what they are.
func escape(text string) string { return markdown.Replace(text) }

var markdown = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, `~`, `\~`, "`", "\\`", `|`, `\|`, `>`, `\>`, `#`, `\#`, `[`, `\[`, `<`, `\<`)

func units(text string) (n int) {
	for _, r := range text {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// cut shortens to so many UTF-16 units.
func cut(text string, limit int) string {
	if units(text) <= limit {
		return text
	}
	n := 0
	for i, r := range text {
		if n += max(utf16.RuneLen(r), 1); n > limit-1 {
			// A lone backslash would escape what follows.
			return strings.TrimRight(text[:i], `\`) + "…"
		}
	}
	return text
}
