package fallback

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	at := func(day int, clock string) time.Time { // the first is a Sunday
		now, err := time.ParseInLocation("2006-01-02 15:04", fmt.Sprintf("2026-02-%02d %s", day, clock), time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	for _, c := range []struct {
		window string
		now    time.Time
		open   bool
	}{
		{"02:00-05:00", at(1, "01:59"), false},
		{"02:00-05:00", at(1, "02:00"), true},
		{"02:00-05:00", at(4, "04:59"), true},
		{"02:00-05:00", at(4, "05:00"), false},
		{"02:00-05:00 sat sun", at(1, "03:00"), true},
		{"02:00-05:00 sat sun", at(2, "03:00"), false},
		{"02:00-05:00 sat sun", at(7, "03:00"), true},
		{"23:00-01:00 sat", at(7, "23:30"), true},
		{"23:00-01:00 sat", at(8, "00:30"), true},
		{"23:00-01:00 sat", at(7, "00:30"), false},
		{"23:00-01:00 sun", at(8, "00:30"), false},
		{"23:00-01:00 sun", at(2, "00:30"), true},
	} {
		w, err := parseWindow(c.window)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.open(c.now); (err == nil) != c.open || err != nil && !strings.Contains(err.Error(), "drill_window is "+c.window) {
			t.Errorf("%s at %s: %v", c.window, c.now.Format("Mon 15:04"), err)
		}
	}
	for _, text := range []string{"", "now", "02:00", "02:00-", "2-5", "02:00-02:00", "25:00-03:00", "02:00-05:00 someday", "02:00-05:00 Sun"} {
		if w, err := parseWindow(text); err == nil {
			t.Errorf("%q is taken for %+v", text, w)
		}
	}
}

// TestWall: both ends of each connection to the others are cut off, and nothing else.
func TestWall(t *testing.T) {
	far := append(hosts([]string{"https://10.8.0.3:7380", "http://[fd00::9]:2379", "10.8.0.4:2379"}), "10.8.0.3:7443")
	w, err := wallOf(t.Context(), far, []string{":7443", "10.8.0.2:7380"})
	const want = "[10.8.0.3:7380 [fd00::9]:2379 10.8.0.4:2379 10.8.0.3:7443] [7443 7380] [10.8.0.3 fd00::9 10.8.0.4]"
	if got := fmt.Sprint(w.Far, w.Near, w.Hosts); got != want || err != nil {
		t.Errorf("%s, want %s: %v", got, want, err)
	}
	for _, far := range [][]string{nil, {"10.8.0.3"}, {"10.8.0.3:http"}, {"10.8.0.3:70000"}} {
		if w, err := wallOf(t.Context(), far, nil); err == nil {
			t.Errorf("%q: %+v", far, w)
		}
	}
}
