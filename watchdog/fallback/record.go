package fallback

import "time"

// Level says who should hear of a record.
type Level string

// The levels. Empty: the log and the history only.
const (
	Info  Level = "info"  // people, when they look
	Warn  Level = "warn"  // people, now
	Alarm Level = "alarm" // people, now: something needs a hand
)

// Record is one thing that happened: the log line, the history, the metric, the notice
// and the trace are all made of it.
type Record struct {
	At      time.Time `json:"at"`
	Home    string    `json:"home"`
	From    Stage     `json:"from"`
	To      Stage     `json:"to"`
	Event   string    `json:"event,omitempty"`
	Actions []string  `json:"actions,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Step    string    `json:"step,omitempty"` // that was confirmed, skipped or failed
	Level   Level     `json:"level,omitempty"`
}
