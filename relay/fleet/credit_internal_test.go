package fleet

import (
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/event"
)

// TestCredit: many events at once are all told; without end they are not, and that
// is said once.
func TestCredit(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c credit
	for _, step := range []struct {
		name  string
		after time.Duration
		did   int
		want  int
		muted bool
	}{
		{"a network that fails", 0, mostAtOnce, mostAtOnce, false},
		{"and more of it", 0, 5, 0, true},
		{"which is said once", 0, 5, 0, false},
		{"a little later", 3 * time.Second, 50, 3 * perSecond, false},
		{"a clock that goes back", time.Second, 1, 0, false},
		{"calm", time.Hour, mostAtOnce, mostAtOnce, false},
		{"which it was for long enough", time.Hour + time.Second, 50, perSecond, true},
	} {
		got, muted := c.spend(make([]event.Event, step.did), start.Add(step.after))
		if len(got) != step.want || muted != step.muted {
			t.Errorf("%s: %d events, muted %v; want %d, %v", step.name, len(got), muted, step.want, step.muted)
		}
	}
}
