package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/firewall"
)

// TestPrints: what the commands print of a status and of findings.
func TestPrints(t *testing.T) {
	var out bytes.Buffer
	c := client{o: Options{Path: []string{"edge", "firewall"}}}
	c.printStatus(&out, firewall.Status{
		Phase: firewall.Armed, InForce: true, Left: 61.4, Guard: "a process of its own", Backup: "/run/edge-firewall/backup-X", Reason: "a\nb",
	})
	const want = `phase      armed
in force   yes
persisted  no
left       1m1s, then taken back by a process of its own
attention  that is gone: say "edge firewall rollback" or "edge firewall confirm" yourself
reason     a b
backup     /run/edge-firewall/backup-X
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	printFindings(&out, []firewall.Finding{{Severity: firewall.Stop, What: "w", Why: "y", Do: "d"}})
	if want := "stop  w\n      why: y\n      do:  d\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestRules: print writes what apply would put in force, and names the flag that is wrong.
func TestRules(t *testing.T) {
	asJSON := false
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := New(Options{Path: []string{"firewall"}, JSON: &asJSON, Found: func() error { return nil }})
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	out, err := run("print", "--admin", "192.0.2.7", "--port", "8443", "--udp-port", "51820")
	if err != nil || !strings.Contains(out, "192.0.2.7") || !strings.Contains(out, "8443") || !strings.Contains(out, "51820") {
		t.Errorf("print: %v:\n%s", err, out)
	}
	if out, err := run("print", "--admin", "192.0.2.7", "--port", "0"); err == nil || !strings.Contains(out, "--port 0") {
		t.Errorf("port 0: %v: %s", err, out)
	}
}
