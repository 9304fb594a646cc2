package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// slackLimit is what Slack shows of a text (chat.postMessage: 40,000 characters),
// with room to spare.
const slackLimit = 12000

// slack posts a text in the form that Slack takes, and Discord under /slack.
type slack struct {
	poster
	limit int
}

// Send implements Channel.
func (s *slack) Send(ctx context.Context, m Message) error {
	// Slack, "Formatting text for app surfaces": these three, and nothing else. It
	// also keeps <!channel> from calling anybody.
	text := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(m.Title() + "\n" + m.Text())
	body, err := json.Marshal(struct {
		Text   string `json:"text"`
		Mrkdwn bool   `json:"mrkdwn"`
	}{cut(text, s.limit), false})
	if err != nil {
		return &PermanentError{Reason: "it cannot be written as JSON"}
	}
	return s.post(ctx, body, http.Header{}, discordRetry)
}
