package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/edgeward/edgeward/internal/secret"
)

// webhook posts the event as JSON.
type webhook struct {
	poster
	secret secret.String
}

// webhookBody is what a receiver gets. Fields may be added.
type webhookBody struct {
	// ID is that of the header X-Edge-Id: the same for each attempt.
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
	// Reminder counts the repetitions of what is still open. 0: it is news.
	Reminder int       `json:"reminder"`
	SentAt   time.Time `json:"sent_at"`
	// Delayed is how late it is, in seconds.
	Delayed int64 `json:"delayed_seconds"`
	// Lost counts the messages before it that will never come.
	Lost  int   `json:"lost"`
	Event Event `json:"event"`
}

// Send implements Channel.
func (w *webhook) Send(ctx context.Context, m Message) error {
	body, err := json.Marshal(webhookBody{
		ID: m.ID, Title: m.Title(), Text: m.Text(), Reminder: m.Reminder, SentAt: m.Sent.UTC(),
		Delayed: int64(m.Delay().Seconds()), Lost: m.Lost, Event: m.Event,
	})
	if err != nil {
		return &PermanentError{Reason: fmt.Sprintf("it cannot be written as JSON: %v", err)}
	}
	header := http.Header{}
	header.Set("X-Edge-Id", m.ID)
	header.Set("X-Edge-Event", string(m.Kind))
	if !w.secret.IsZero() {
		header.Set("X-Edge-Signature", sign(w.secret, time.Now(), body))
	}
	return w.post(ctx, body, header, nil)
}

// sign covers the time too, so that a receiver can refuse what was recorded and is
// played again later.
func sign(key secret.String, now time.Time, body []byte) string {
	t := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
