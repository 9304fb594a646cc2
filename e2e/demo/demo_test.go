package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDemo plays it in a hurry, and not on a terminal.
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	c := config{bin: edgeRelay(t), rate: 30, pace: .6, failback: time.Second, out: &out}
	code := play(t.Context(), c)
	t.Log(out.String())
	if code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "PASS: ") || !strings.Contains(last, " 0 failed while a gateway was alive") {
		t.Errorf("the verdict is %q", last)
	}
	for _, want := range []string{"gateway nuc is down", "nobody serves the pool", "the pool is served by nuc"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the timeline does not say %q", want)
		}
	}
	if strings.ContainsRune(out.String(), '\x1b') {
		t.Error("there are escape codes, and this is no terminal")
	}
}

// TestVerdict: a failure is told, and not taken for part of the outage.
func TestVerdict(t *testing.T) {
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	played := []playedAct{
		{act{title: "well", serves: "nuc"}, at(0), at(2), "nuc"},
		{act{title: "outage"}, at(2), at(4), ""},
		{act{title: "back", serves: "nuc"}, at(4), at(6), "nuc"},
	}
	visits := func(failed int) (all visits) { // 20 a second; one of them failed
		for i := range 120 {
			s := float64(i) / 20
			v := visit{began: at(s), ended: at(s + .01), gateway: "nuc"}
			if i >= 40 && i < 80 || i == failed {
				v.gateway, v.err = "", os.ErrDeadlineExceeded
			}
			all = append(all, v)
		}
		return all
	}
	if v := judge(played, visits(-1), nil); !v.passed() || v.outage != 40 {
		t.Errorf("all as it should be, but: %s", v.text())
	}
	if v := judge(played, visits(10), nil); v.passed() || v.failed != 1 {
		t.Errorf("a visitor failed while all was well, but: %s", v.text())
	}
	if v := judge(played, visits(10), []time.Time{at(.505)}); !v.passed() || v.cut != 1 {
		t.Errorf("a visitor was cut by the death of the gateway, but: %s", v.text())
	}
	played[2].claimed = "nas"
	if v := judge(played, visits(-1), nil); v.passed() {
		t.Errorf("the relay says who does not serve, but: %s", v.text())
	}
}

func edgeRelay(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("EDGE_BIN_DIR"); dir != "" {
		return filepath.Join(dir, "edge-relay")
	}
	bin := filepath.Join(t.TempDir(), "edge-relay")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-ldflags", "-w -s", "-o", bin, "./xcaddy/relay")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return bin
}
