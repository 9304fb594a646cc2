//go:build linux

package firewall_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/firewall"
)

// sessionOf is a login of the administrator.
func sessionOf(port uint16) firewall.Session {
	return firewall.Session{Source: netip.MustParseAddr("192.0.2.2"), SourcePort: port, Port: 22}
}

// TestReachable: who reaches what before the rules, under them, and after they were
// taken back.
func TestReachable(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	for _, port := range []string{"22", "80", "443"} {
		n.listen(port)
	}
	want := func(when, source, port string, open bool) {
		t.Helper()
		patience := 800 * time.Millisecond
		if open {
			patience = 10 * time.Second // finding a neighbour anew takes seconds on a busy machine
		}
		for _, family := range []string{"192.0.2.", "2001:db8::"} {
			if err := n.dial(family+source, net.JoinHostPort(family+"1", port), patience); (err == nil) != open {
				t.Errorf("%s: from %s%s to port %s: %v; want it open: %v", when, family, source, port, err, open)
			}
		}
	}
	all := func(when string) {
		for _, source := range []string{"2", "3"} {
			for _, port := range []string{"22", "80", "443"} {
				want(when, source, port, true)
			}
		}
	}
	was := furnish(t, "")
	all("before")
	fw := newFirewall(t, config(t.TempDir()))
	open := rules()
	open.UDP = []uint16{51820}
	if _, err := fw.Apply(t.Context(), open, firewall.Options{Session: sessionOf(50000), Window: time.Minute}); err != nil {
		t.Fatal(err)
	}
	// Neighbours must be found anew under the rules, and pings be answered.
	do(t, "", "ip", "neigh", "flush", "dev", "fw0")
	n.peer(func() error { do(t, "", "ip", "neigh", "flush", "dev", "fw1"); return nil })
	want("under the rules", "2", "443", true)
	want("under the rules", "3", "443", true)
	want("under the rules", "2", "22", true)
	want("under the rules", "3", "22", false)
	want("under the rules", "2", "80", false)
	want("under the rules", "3", "80", false)
	n.ping()
	n.datagrams(map[string]bool{"192.0.2.1:51820": true, "[2001:db8::1]:51820": true, "192.0.2.1:51821": false, "[2001:db8::1]:51821": false})
	if _, err := fw.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	all("after")
	if diff := cmp.Diff(counters.ReplaceAllString(was, ""), counters.ReplaceAllString(everything(t), "")); diff != "" {
		t.Error(diff)
	}
}

// TestOpenConnections: a connection on which only the other side speaks goes on
// while the rules come and go, although nobody here has seen it begin.
func TestOpenConnections(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	conn := n.download()
	cfg := config(t.TempDir())
	cfg.Learn = time.Second
	fw := newFirewall(t, cfg)
	gap := make(chan time.Duration)
	stop := make(chan struct{})
	go longestGap(conn, stop, gap)
	if _, err := fw.Apply(t.Context(), rules(), firewall.Options{Console: true}); err != nil {
		t.Fatal(err)
	}
	// Long enough for a stall to be one: a lost segment is sent again after 200 ms, 400 ms ...
	<-time.After(3 * time.Second)
	close(stop)
	if d := <-gap; d > 2*time.Second {
		t.Errorf("nothing came for %s", d)
	}
	if _, err := fw.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// longestGap reads until stop and reports the longest time without a byte.
func longestGap(conn net.Conn, stop chan struct{}, gap chan<- time.Duration) {
	buf := make([]byte, 64<<10)
	var longest time.Duration
	last := time.Now()
	for {
		select {
		case <-stop:
			gap <- max(longest, time.Since(last))
			return
		default:
		}
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n, _ := conn.Read(buf); n > 0 {
			longest = max(longest, time.Since(last))
			last = time.Now()
		}
	}
}

// TestConfirm: over a new connection the rules stay, and are written for the next boot.
func TestConfirm(t *testing.T) {
	t.Parallel()
	namespace(t)
	was := furnish(t, "")
	cfg := config(t.TempDir())
	fw := newFirewall(t, cfg)
	if _, err := fw.Confirm(t.Context(), sessionOf(1)); err == nil || !strings.Contains(err.Error(), "nothing to confirm") {
		t.Errorf("confirmed nothing: %v", err)
	}
	state, err := fw.Apply(t.Context(), rules(), firewall.Options{Session: sessionOf(50000), Window: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fw.Apply(t.Context(), rules(), firewall.Options{Console: true}); err == nil || !strings.Contains(err.Error(), "not confirmed yet") {
		t.Errorf("applied twice: %v", err)
	}
	if _, err := fw.Confirm(t.Context(), sessionOf(50000)); err == nil || !strings.Contains(err.Error(), "open a new one") {
		t.Errorf("confirmed over the old connection: %v", err)
	}
	if _, err := fw.Confirm(t.Context(), sessionOf(50001)); err != nil {
		t.Fatal(err)
	}
	rulesNow := everything(t)
	// The guard ends by itself, without a rollback, at the latest at the deadline.
	eventually(t, 10*time.Second, "the guard ends", func() bool { return time.Now().After(state.Deadline) && over(t, cfg.Dir) })
	if diff := cmp.Diff(rulesNow, everything(t)); diff != "" || rulesNow == was {
		t.Errorf("the confirmed rules do not stay: %s", diff)
	}
	s, err := fw.Status(t.Context())
	if want := (firewall.Status{Phase: firewall.Confirmed, InForce: true, Persisted: true, Backup: s.Backup}); err != nil || s != want {
		t.Errorf("%+v, %v; want %+v", s, err, want)
	}
	checkFiles(t, cfg, s, was)
	if _, err := fw.Rollback(t.Context()); err == nil || !strings.Contains(err.Error(), "nft delete table inet edgeward") {
		t.Errorf("rolled back what is confirmed: %v", err)
	}
	// The next boot.
	table := do(t, "", "nft", "list", "table", "inet", "edgeward")
	do(t, "", "nft", "flush", "ruleset")
	do(t, "", "nft", "-f", cfg.Persist)
	if diff := cmp.Diff(table, do(t, "", "nft", "list", "ruleset")); diff != "" {
		t.Error(diff)
	}
}

// checkFiles looks at what lies on disk.
func checkFiles(t *testing.T, cfg firewall.Config, s firewall.Status, was string) {
	t.Helper()
	for _, name := range []string{cfg.Persist, s.Backup, filepath.Join(cfg.Dir, "state.json")} {
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	backup, err := os.ReadFile(s.Backup)
	if err != nil {
		t.Fatal(err)
	}
	nft, _, _ := strings.Cut(was, "*")
	for _, part := range []string{nft, "#### iptables-save\n", "#### ip6tables-save\n", "-A INPUT -p tcp -m tcp --dport 9 -j ACCEPT\n"} {
		if !strings.Contains(string(backup), part) {
			t.Errorf("the backup lacks %q", part)
		}
	}
}

// TestPersistRefused: the rules stay in danger until the file can be written, and a
// file of somebody else is left alone.
func TestPersistRefused(t *testing.T) {
	t.Parallel()
	namespace(t)
	cfg := config(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(cfg.Persist), 0o755); err != nil {
		t.Fatal(err)
	}
	fw := newFirewall(t, cfg)
	if _, err := fw.Apply(t.Context(), rules(), firewall.Options{Console: true}); err != nil {
		t.Fatal(err)
	}
	const theirs = "table inet filter {\n}\n"
	if err := os.WriteFile(cfg.Persist, []byte(theirs), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := fw.Confirm(t.Context(), firewall.Session{})
	wantError(t, err, "is not ours")
	if text, _ := os.ReadFile(cfg.Persist); string(text) != theirs {
		t.Errorf("overwritten with %s", text)
	}
	if err := os.Remove(cfg.Persist); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(cfg.Persist), 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = fw.Confirm(t.Context(), firewall.Session{})
	wantError(t, err, "others may write there")
	if s, err := fw.Status(t.Context()); err != nil || s.Phase != firewall.Armed || s.Persisted {
		t.Errorf("%+v, %v", s, err)
	}
	// Somebody takes the rules away before they are confirmed.
	do(t, "", "nft", "flush", "table", "inet", "edgeward")
	_, err = fw.Confirm(t.Context(), firewall.Session{})
	wantError(t, err, "not what was applied")
	if _, err := fw.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = fw.Confirm(t.Context(), firewall.Session{})
	wantError(t, err, "were taken back: asked to")
}

// TestRefused: none of these may change a rule or leave anything behind.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name, want, nft string
		rules           firewall.Rules
		options         firewall.Options
	}{
		{"nobody", "admin", "", firewall.Rules{}, firewall.Options{Console: true}},
		{"no session", "SSH_CONNECTION", "", rules(), firewall.Options{}},
		{"elsewhere", "add --admin 203.0.113.9", "", rules(), firewall.Options{Session: firewall.Session{Source: netip.MustParseAddr("203.0.113.9"), Port: 22}}},
		{"another port", "--ssh-port 2222", "", rules(), firewall.Options{Session: firewall.Session{Source: netip.MustParseAddr("192.0.2.2"), Port: 2222}}},
		{"window", "window 2h", "", rules(), firewall.Options{Console: true, Window: 2 * time.Hour}},
		{"negative window", "window -1s", "", rules(), firewall.Options{Console: true, Window: -time.Second}},
		{"tables of others", "tables of somebody else: inet x", "table inet x {\n}\n", rules(), firewall.Options{Console: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			namespace(t)
			was := furnish(t, tc.nft)
			fw := newFirewall(t, config(t.TempDir()))
			_, _, err := fw.Plan(t.Context(), tc.rules, tc.options)
			wantError(t, err, tc.want)
			_, err = fw.Apply(t.Context(), tc.rules, tc.options)
			wantError(t, err, tc.want)
			if diff := cmp.Diff(was, everything(t)); diff != "" {
				t.Error(diff)
			}
			if s, err := fw.Status(t.Context()); err != nil || s.Phase != firewall.Absent || s.Guarded {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// TestPlan: a dry run changes nothing, not even the state folder.
func TestPlan(t *testing.T) {
	namespace(t)
	was := furnish(t, "")
	cfg := config(filepath.Join(t.TempDir(), "state"))
	script, findings, err := newFirewall(t, cfg).Plan(t.Context(), rules(), firewall.Options{Console: true})
	if err != nil || script != rules().Script() || len(findings) != 0 {
		t.Errorf("%s, %+v, %v", script, findings, err)
	}
	if diff := cmp.Diff(was, everything(t)); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(cfg.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("made the state folder")
	}
}

// TestUnsafeFolder: what lies in the state folder is run by root.
func TestUnsafeFolder(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"others may write": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o770)) },
		"not a folder":     func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"belongs to user":  func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 1234, 1234)) },
	} {
		t.Run(name, func(t *testing.T) {
			namespace(t)
			cfg := config(filepath.Join(t.TempDir(), "state"))
			if err := spoil(cfg.Dir); err != nil {
				t.Skip(err)
			}
			_, err := newFirewall(t, cfg).Apply(t.Context(), rules(), firewall.Options{Console: true})
			wantError(t, err, name)
		})
	}
}

// TestSystemd: a timer of systemd is asked for before the first rule, called off
// when it is over, and there is no rule without it.
func TestSystemd(t *testing.T) {
	for _, works := range []bool{true, false} {
		m := &machine{
			programs: []string{"nft", "systemctl", "systemd-run"},
			answers:  map[string]string{"nft list ruleset": rules().Script()},
		}
		sys := m.system()
		plain := sys.Run
		sys.Run = func(ctx context.Context, input, path string, args ...string) (string, string, error) {
			out, said, err := plain(ctx, input, path, args...)
			if path == "systemd-run" && !works {
				err = errors.New("no bus")
			}
			return out, said, err
		}
		dir := t.TempDir()
		fw := newFirewall(t, firewall.Config{Dir: dir, Persist: filepath.Join(dir, "persist"), Self: []string{"/bin/edge-relay", "edge", "firewall", "rollback"}, Learn: -1, System: &sys})
		state, err := fw.Apply(t.Context(), rules(), firewall.Options{Console: true, Window: time.Minute})
		armed, loaded := -1, -1
		for i, command := range m.ran {
			if strings.HasPrefix(command, "systemd-run ") {
				armed = i
			}
			if command == "nft -f -" {
				loaded = i
			}
		}
		if armed < 0 || works != (loaded > armed) || works != (err == nil) {
			t.Fatalf("armed at %d, loaded at %d of %q, %v", armed, loaded, m.ran, err)
		}
		if !works {
			continue
		}
		want := "systemd-run --quiet --collect --unit=edge-firewall-rollback-" + state.ID + " --on-active=60000ms --timer-property=AccuracySec=100ms --property=Type=oneshot" +
			" --description=Edgeward: take unconfirmed firewall rules back -- /bin/edge-relay edge firewall rollback --armed " + state.ID + " --state-dir " + dir
		if m.ran[armed] != want {
			t.Errorf("ran %s\nwant %s", m.ran[armed], want)
		}
		m.ran = nil
		if _, err := fw.Confirm(t.Context(), firewall.Session{}); err != nil {
			t.Fatal(err)
		}
		if stop := "systemctl stop edge-firewall-rollback-" + state.ID + ".timer"; m.ran[len(m.ran)-1] != stop {
			t.Errorf("ran %q, want %s", m.ran, stop)
		}
		m.ran = nil
		called := false
		if err := fw.Guard(t.Context(), state.ID, 0, func() { called = true }); err != nil || !called || len(m.ran) > 0 {
			t.Errorf("a timer that comes too late: %v, ran %q", err, m.ran)
		}
	}
}
