package notify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/notify"
)

func TestTitles(t *testing.T) {
	for kind, want := range map[notify.Kind]string{
		notify.Switched:         "example.com: moved from relay to cloudflare",
		notify.SwitchFailed:     "example.com: could not move from relay to cloudflare: 4 failed probes",
		notify.Returned:         "example.com: back on cloudflare",
		notify.Repaired:         "example.com: records repaired, visitors stay on cloudflare",
		notify.Hold:             "example.com: nothing is changed: 4 failed probes",
		notify.Outage:           "example.com: no path works",
		notify.OutageOver:       "example.com: reachable again through cloudflare",
		notify.Blind:            "example.com: our own connectivity is gone, nothing is known and nothing is changed",
		notify.Sighted:          "example.com: our own connectivity is back",
		notify.Quarantined:      "example.com: a record is left alone: 4 failed probes",
		notify.QuarantineOver:   "example.com: the record is managed again",
		notify.ProviderRefusing: "example.com: wanted cloudflare, provider refusing: 4 failed probes",
		notify.ProviderOK:       "example.com: the provider takes changes again",
		notify.Certificate:      "example.com: certificate: 4 failed probes",
		notify.StandbyDown:      "example.com: standby cloudflare would not work: 4 failed probes",
		notify.StandbyUp:        "example.com: standby cloudflare would work again",
		notify.Paused:           "example.com: writes are paused: 4 failed probes",
		notify.Resumed:          "example.com: writes are allowed again",
		notify.Fatal:            "example.com: stopped: 4 failed probes",
		notify.Started:          "example.com: started",
		notify.Test:             "example.com: this is a test message",
	} {
		e := switched()
		e.Kind = kind
		if got := e.Title(); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
		if got := (notify.Event{Kind: kind}).Title(); !strings.HasPrefix(got, "watchdog: ") || strings.Contains(got, "  ") || strings.HasSuffix(got, " ") {
			t.Errorf("%s of nothing: %q", kind, got)
		}
	}
	long := switched()
	long.From = strings.Repeat("ä", 300)
	if got := long.Title(); len(got) > 250 || !strings.HasSuffix(got, "…") {
		t.Errorf("long: %q", got)
	}
}

func TestText(t *testing.T) {
	m := message(switched())
	event := `Time: 2026-03-01 12:00:00 UTC
Reason: 4 failed probes
[-] relay: bad, preferred (198.51.100.7, 2001:db8::7): connection refused
[+] cloudflare: good, serving (203.0.113.5)
[?] mirror: unknown: not probed
A and AAAA, read back after 2 s
Incident: example.com/7`
	for _, tc := range []struct {
		name   string
		change func(*notify.Message)
		want   string
	}{
		{"in time", func(*notify.Message) {}, event},
		{"other zone", func(m *notify.Message) { m.At = m.At.In(time.FixedZone("x", 7200)) }, event},
		{"late", func(m *notify.Message) { m.Sent = m.At.Add(7*time.Hour + 10*time.Minute) }, "Delivered 7h10m late: it happened at 2026-03-01 12:00:00 UTC.\n" + event},
		{"days late", func(m *notify.Message) { m.Sent = m.At.Add(80 * time.Hour) }, "Delivered 3 days late: it happened at 2026-03-01 12:00:00 UTC.\n" + event},
		{"before it happened", func(m *notify.Message) { m.Sent = m.At.Add(-time.Hour) }, event},
		{"reminder", func(m *notify.Message) { m.Sent, m.Reminder = m.At.Add(4*time.Hour), 1 }, "Reminder 1: open for 4h0m, since 2026-03-01 12:00:00 UTC.\n" + event},
		{"lost", func(m *notify.Message) { m.Lost, m.LostSince = 3, noon.Add(-time.Hour) }, "3 earlier messages, the first of 2026-03-01 11:00:00 UTC, could not be delivered here. The history has them.\n" + event},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := m
			tc.change(&m)
			if diff := cmp.Diff(tc.want, m.Text()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
