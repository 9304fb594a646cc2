package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
)

func TestMain(m *testing.M) {
	stage.Main()
	os.Exit(m.Run())
}

// TestDemo plays it all.
func TestDemo(t *testing.T) {
	began := time.Now()
	var out bytes.Buffer
	code := play(t.Context(), config{bin: programs(t), out: &out})
	t.Logf("it took %s and printed\n%s", time.Since(began).Round(time.Second), &out)
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"The power goes at attic", "cellar: waiting -> fallback", "covered -> gated", "PASS: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the timeline lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("there are colours in what is no terminal")
	}
}

// TestVerdict: what must not happen is a failure.
func TestVerdict(t *testing.T) {
	at := time.Unix(1000, 0)
	after := func(home string, seq int64, s int) stage.Visit {
		return stage.Visit{Began: at.Add(time.Duration(s) * time.Second), Ended: at.Add(time.Duration(s) * time.Second), Home: home, Seq: seq}
	}
	for name, c := range map[string]struct {
		visits []stage.Visit
		by     []string
		want   string
	}{
		"as it should be": {[]stage.Visit{after(home, 9, -1), after(other, 5, 1), after(home, 6, 2)}, []string{home, other, home}, ""},
		"lost data":       {[]stage.Visit{after(other, 5, 1), after(home, 4, 2)}, []string{home, other, home}, "site: attic showed line 4 after line 5 of cellar"},
		"wrong writer":    {nil, []string{home, other, home, other}, "written by attic, cellar, attic, cellar"},
		"nobody covered":  {nil, []string{home}, "written by attic, want"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &verdict{}
			v.forward("site", c.visits, at)
			var list []stage.Write
			for _, by := range c.by {
				list = append(list, stage.Write{Home: home, By: by})
			}
			v.writers(list)
			if text := v.text(); v.passed() != (c.want == "") || !strings.Contains(text, c.want) {
				t.Errorf("%s, want %q", text, c.want)
			}
		})
	}
}

// programs is the folder with what is shown.
func programs(t *testing.T) string {
	t.Helper()
	if ready := os.Getenv("EDGE_BIN_DIR"); ready != "" {
		return ready
	}
	dir := t.TempDir()
	for _, name := range []string{"relay", "watchdog"} {
		cmd := exec.Command("go", "build", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-ldflags", "-w -s", "-o", filepath.Join(dir, "edge-"+name), "./xcaddy/"+name)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building edge-%s: %v\n%s", name, err, out)
		}
	}
	return dir
}
