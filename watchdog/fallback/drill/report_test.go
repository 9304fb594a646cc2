package drill_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/drill"
)

// TestKept: the newest reports are kept, and the last good one of each home, however
// many failures followed.
func TestKept(t *testing.T) {
	p := newPair(t)
	p.cfgs["cellar"].Keep = 2
	d := p.make()
	dir := filepath.Join(p.dir, "cellar", "reports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(id string, r drill.Report) {
		t.Helper()
		r.ID = id
		text, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, id+".json"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now().Add(-time.Hour)
	put("20260101T000000Z-a", drill.Report{Home: "attic", OK: true, Began: began.Add(-time.Hour)})
	put("20260102T000000Z-a", drill.Report{Home: "attic", OK: true, Began: began})
	put("20260103T000000Z-a", drill.Report{Home: "attic", Real: true, OK: true, Began: began.Add(-time.Minute)})
	for i := range 3 {
		put(fmt.Sprintf("20260104T00000%dZ-a", i), drill.Report{Home: "attic"})
	}
	if err := os.WriteFile(filepath.Join(dir, "20260105T000000Z-a.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Run(t.Context(), drill.Options{Home: "attic", Real: true}); err == nil {
		t.Fatal("it was taken")
	}
	_ = os.WriteFile(filepath.Join(p.dir, "bad"), nil, 0o600)
	failed, err := d.Run(t.Context(), drill.Options{Home: "attic"})
	if err == nil {
		t.Fatal("it was good")
	}
	list, err := d.Reports()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	want := []string{failed.ID, "20260103T000000Z-a", "20260102T000000Z-a"}
	if fmt.Sprint(ids) != fmt.Sprint(want) {
		t.Errorf("%v are kept, want %v", ids, want)
	}
}

func TestText(t *testing.T) {
	at := time.Unix(1, 0)
	r := drill.Report{ID: "x", Home: "attic", By: "cellar", Seconds: 61, Error: "phase 2, the home is cut off: no\nnft", Phases: []drill.Phase{
		{Number: 1, Name: "both homes are ready", Began: at, Seconds: 1.25, OK: true, Detail: "9 checks"},
		{Number: 2, Name: "the home is cut off", Began: at, Seconds: 60, Detail: "no\nnft"},
		{Number: 3, Name: "it is covered"},
	}}
	const want = `rehearsal x: attic is gone, cellar covers it
  1. both homes are ready            1.2s  ok  9 checks
  2. the home is cut off            60.0s  FAILED  no nft
  3. it is covered                   0.0s  not reached
FAIL after 61.0s: phase 2, the home is cut off: no nft
`
	if got := r.Text(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
