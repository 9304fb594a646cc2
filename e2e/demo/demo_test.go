package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDemo plays it in a hurry, and not on a terminal.
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	dir := programs(t)
	c := config{relay: filepath.Join(dir, "edge-relay"), watchdog: filepath.Join(dir, "edge-watchdog"), rate: 30, pace: .6, failback: time.Second, out: &out}
	code := play(t.Context(), c)
	t.Log(out.String())
	if code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "PASS: ") || !strings.Contains(last, " 0 failed while a gateway was alive") {
		t.Errorf("the verdict is %q", last)
	}
	for _, want := range []string{
		"gateway nuc is down", "gateway pair http://", "the pool is served by cabin", "nobody serves the pool", "the pool is served by nuc",
		"s detect ", "s decide ", "s write ", "s verified ", "s visible   DNS leads visitors to Cloudflare", "s recovered DNS leads visitors to the relay",
	} {
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
	if v := judge(played, visits(-1), nil, nil); !v.passed() || v.outage != 40 {
		t.Errorf("all as it should be, but: %s", v.text())
	}
	if v := judge(played, visits(10), nil, nil); v.passed() || v.failed != 1 {
		t.Errorf("a visitor failed while all was well, but: %s", v.text())
	}
	if v := judge(played, visits(10), []span{{at(.49), at(.502)}}, nil); !v.passed() || v.cut != 1 {
		t.Errorf("a visitor came while the gateway was being killed, but: %s", v.text())
	}
	if v := judge(played, visits(10), []span{{at(.505), at(.506)}}, nil); !v.passed() || v.cut != 1 {
		t.Errorf("a visitor was cut by the death of the gateway, but: %s", v.text())
	}
	played[2].claimed = "nas"
	if v := judge(played, visits(-1), nil, nil); v.passed() {
		t.Errorf("the relay says who does not serve, but: %s", v.text())
	}
}

// TestVerdictOfMoves: those are lost who come while DNS leads to a dead relay, and a
// move that lacks a step is no success.
func TestVerdictOfMoves(t *testing.T) {
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	played := []playedAct{
		{act{title: "well", serves: "nas"}, at(0), at(2), "nas"},
		{act{title: "relay dead", serves: edge}, at(2), at(6), edge},
		{act{title: "relay back", serves: "nas"}, at(6), at(10), "nas"},
	}
	made := func(to string, cause, dns float64) *move {
		m := newMove(to)
		m.cause = at(cause)
		for _, step := range []string{"decide", "write", "verified", "DNS"} {
			m.note(step, at(dns))
		}
		return m
	}
	visits := func(lost ...int) (all visits) { // 20 a second
		for i := range 200 {
			s := float64(i) / 20
			v := visit{began: at(s), ended: at(s + .01), gateway: "nas"}
			if s >= 3 && s < 8 {
				v.gateway = edge
			}
			if s >= 2 && s < 3 || slices.Contains(lost, i) {
				v.gateway, v.err = "", os.ErrDeadlineExceeded
			}
			all = append(all, v)
		}
		return all
	}
	moves := []*move{made("cloudflare", 2, 3), made("relay", 6, 8)}
	if v := judge(played, visits(), nil, moves); !v.passed() || v.stranded != 20 || len(v.moves) != 2 {
		t.Errorf("%d stranded, %q, and: %s", v.stranded, v.moves, v.text())
	}
	for _, lost := range []int{80, 130, 180} { // after the move, before the way back, after it
		if v := judge(played, visits(lost), nil, moves); v.passed() || v.failed != 1 {
			t.Errorf("visitor %d failed, but: %s", lost, v.text())
		}
	}
	delete(moves[1].steps, "verified")
	if v := judge(played, visits(), nil, moves); v.passed() {
		t.Errorf("the way back was not verified, but: %s", v.text())
	}
}

// programs returns the folder with those that are shown.
func programs(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("EDGE_BIN_DIR"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	for _, name := range []string{"relay", "watchdog"} {
		cmd := exec.Command("go", "build", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-ldflags", "-w -s", "-o", filepath.Join(dir, "edge-"+name), "./xcaddy/"+name)
		cmd.Dir, cmd.Stderr = "../..", os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
