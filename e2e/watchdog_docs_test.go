package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// TestOperationsPage does what docs/operations.md says, from the first command to the
// last, and then what stands in the other pages of the watchdog. What a command says in
// the end is behind it, after a #.
func TestOperationsPage(t *testing.T) {
	t.Parallel()
	tool(t, "curl")
	m := newMachine(t)
	first, sections := blocks(t, "../docs/operations.md")
	var all strings.Builder
	all.WriteString(first)
	for _, s := range sections {
		if prepare := m.before()[s.title]; prepare != nil {
			prepare()
		}
		began := time.Now()
		m.shell(s.title, first+s.script)
		t.Logf("%s: %s", s.title, time.Since(began).Round(time.Millisecond))
		all.WriteString(s.script)
	}
	pages := must(filepath.Glob("../docs/watchdog*.md"))(t)
	for _, page := range pages {
		head, sections := blocks(t, page)
		m.shell(page, first+head)
		for _, s := range sections {
			m.shell(page+": "+s.title, first+s.script)
		}
	}
	for _, name := range commandsIn(t, "../docs/watchdog-api.md") {
		if !strings.Contains(all.String(), "edge-watchdog "+name+" ") && name != "init" { // init asks a person
			t.Errorf("the page has no example of edge-watchdog %s", name)
		}
	}
}

// section is a part of a page, with the sh blocks that it has.
type section struct{ title, script string }

// blocks reads a page. The blocks before the second heading of the second level are
// for all that follow.
func blocks(t testing.TB, page string) (first string, list []section) {
	t.Helper()
	for part := range strings.SplitSeq(must(readFile(page))(t), "\n## ") {
		title, rest, _ := strings.Cut(part, "\n")
		script := ""
		for {
			_, after, found := strings.Cut(rest, "\n```sh\n")
			if !found {
				break
			}
			block, more, _ := strings.Cut(after, "```")
			script, rest = script+block, more
		}
		switch {
		case script == "":
		case len(list) == 0 && strings.HasPrefix(title, "Before"):
			first = script
		default:
			list = append(list, section{title, script})
		}
	}
	return first, list
}

// commandsIn lists the commands that a page has in its tables.
func commandsIn(t testing.TB, page string) (list []string) {
	t.Helper()
	_, text, _ := strings.Cut(must(readFile(page))(t), "\n## Commands\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, found := range regexp.MustCompile("(?m)^\\| `([a-z]+)").FindAllStringSubmatch(text, -1) {
		list = append(list, found[1])
	}
	if len(list) < 14 {
		t.Fatalf("%s lists the commands %q", page, list)
	}
	return list
}

// machine is the one that the page is for: with the service, its files, and a VPS.
type machine struct {
	t     testing.TB
	cloud *cloud
	watch *watchdog
	relay *relay
	dir   string
	sock  string // where the stubs of systemctl ask
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	c := newCloud(t)
	dir := must(os.MkdirTemp("", "edge"))(t) // the path of a socket is to be short
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &machine{t: t, cloud: c, dir: dir, sock: filepath.Join(dir, "stub.sock")}
	home := netip.MustParseAddrPort(c.home.addr)
	c.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{
		netip.MustParseAddr(homeAddr): home, netip.MustParseAddr(laterHome): home,
	}})
	m.relay = c.startRelay()
	receiver := newReceiver(t, c.on)
	m.watch = c.newWatchdog("read_interval 5s\nnotify "+receiver.URL, c.site("example.test", relayAddr, c.relay,
		strings.Replace(fast, "dwell 2s", "dwell 3s\n\t\t\tbudget off", 1)))
	m.watch.ready = func() bool { return m.is("steady") }
	m.watch.start = m.service
	for _, path := range []string{"etc/edgeward", "var/lib/edge-watchdog", "run/edge-watchdog", "root", "bin", "credentials"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := m.watch.config("apply")
	for old, now := range map[string]string{
		"admin " + m.watch.admin: "admin unix/" + m.path("/run/edge-watchdog/admin.sock") + "|0660",
		m.watch.state():          m.path("/var/lib/edge-watchdog/state"),
		"token_file":             "#", // it is the credential
	} {
		config = strings.ReplaceAll(config, old, now)
	}
	m.file("/etc/edgeward/Caddyfile", config, 0o644)
	m.file("/etc/edgeward/cf_token", cfToken, 0o600)
	m.stubs()
	m.serve()
	m.watch.run()
	return m
}

// The addresses that come new in the course of the page.
const (
	laterRelay = "8.9.10.12"
	laterHome  = "9.10.11.13"
)

// path is where a file of the page is here.
func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) file(name, text string, mode os.FileMode) {
	m.t.Helper()
	if err := os.WriteFile(m.path(name), []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
}

// service is what systemd makes of the unit.
func (m *machine) service(cmd *exec.Cmd) {
	token := must(os.ReadFile(m.path("/etc/edgeward/cf_token")))(m.t)
	m.file("credentials/cf_token", string(token), 0o600)
	cmd.Args = []string{cmd.Args[0], "run", "--config", m.path("/etc/edgeward/Caddyfile")}
	cmd.Env = append(cmd.Env, "CREDENTIALS_DIRECTORY="+m.path("credentials"))
}

// is reports whether the site is in a phase.
func (m *machine) is(phase string) bool {
	out, code := m.watch.do("status", "--address", "unix/"+m.path("/run/edge-watchdog/admin.sock"))
	return code == 0 && strings.Contains(out, " "+phase+" ")
}

// stubs are the commands that would reach beyond this test.
func (m *machine) stubs() {
	m.t.Helper()
	for name, script := range map[string]string{
		"edge-watchdog": fmt.Sprintf("HOME=%[1]s XDG_DATA_HOME=%[1]s/data XDG_CONFIG_HOME=%[1]s/config exec %[2]s \"$@\"", m.watch.dir, edgeWatchdog),
		"systemctl":     fmt.Sprintf(`for unit; do :; done; exec curl -sS --fail-with-body --unix-socket %s "http://stub/$1/$unit"`, m.sock),
		"ssh":           `[ "$1" = vps ] && shift && exec "$@"`,
		"journalctl":    "exec cat " + filepath.Join(m.watch.dir, "log"),
		"chown":         "exit 0",
		// What follows upon the archive is another machine, which has nothing yet.
		"tar": fmt.Sprintf(`PATH=/usr/bin:/bin tar "$@" && case "$*" in *-czf*) rm -r %s %s ;; esac`, m.path("etc/edgeward"), m.path("var/lib/edge-watchdog/state")),
	} {
		m.file("bin/"+name, "#!/bin/sh\n"+script+"\n", 0o755)
	}
}

// serve does what the stub of systemctl asks for.
func (m *machine) serve() {
	m.t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/{verb}/{unit}", func(w http.ResponseWriter, r *http.Request) {
		if err := m.systemctl(r.PathValue("verb"), r.PathValue("unit")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Handler: mux, ErrorLog: discard}
	ln := must(net.Listen("unix", m.sock))(m.t)
	go func() { _ = server.Serve(ln) }()
	m.t.Cleanup(func() { _ = server.Close() })
}

func (m *machine) systemctl(verb, unit string) error {
	p := m.watch.process
	if unit == "edge-relay" {
		p = m.relay.process
	}
	switch verb {
	case "stop", "disable":
		p.stop()
	case "start", "enable":
		p.run()
	case "restart":
		p.stop()
		p.run()
	case "reload":
		if out, code := p.do("reload", "--force", "--config", m.path("/etc/edgeward/Caddyfile")); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
	default:
		return fmt.Errorf("systemctl %s is not known here", verb)
	}
	return nil
}

// before is what happens to the machine before a section.
func (m *machine) before() map[string]func() {
	c := m.cloud
	return map[string]func(){
		"The provider refuses": func() {
			c.Inject(fakecloudflare.Fault{On: fakecloudflare.Batch, Do: fakecloudflare.Refuse, Status: 403, Code: 9109, Message: "Invalid access token", Times: 1})
			m.relay.kill()
		},
		"Quarantine": func() {
			for _, r := range c.Records("example.test") {
				if r.Type == "A" && r.Name == "*.example.test" {
					r.Comment = nil
					c.Put("example.test", r)
				}
			}
		},
	}
}

// translated is a page's command for this machine.
func (m *machine) translated(script string) string {
	pairs := []string{
		"example.com", "example.test", "198.51.100.7", relayAddr, "198.51.100.8", laterRelay, "203.0.113.5", homeAddr, "203.0.113.6", laterHome,
		`198\.51\.100\.7`, strings.ReplaceAll(relayAddr, ".", `\.`), `203\.0\.113\.5`, strings.ReplaceAll(homeAddr, ".", `\.`),
		"https://api.cloudflare.com/client/v4", m.cloud.URL(), "0123456789abcdef0123456789abcdef", m.cloud.ZoneID("example.test"),
		"--stay 5m", "--stay 1s",
		"tar -C / ", "tar -C " + m.dir + " ", "unix//run/edge-watchdog", "unix/" + m.path("/run/edge-watchdog"),
	}
	for _, dir := range []string{"/etc/edgeward", "/var/lib/edge-watchdog", "/run/edge-watchdog", "/var/backups/"} {
		pairs = append(pairs, dir, m.path(dir))
	}
	return strings.NewReplacer(pairs...).Replace(script)
}

// expect runs a command until it says what it should; one that changes something, once.
const expect = `
expect() {
	tries=1
	case "$2" in *status*|*explain*|*history*|*probe*|*plan*|*journalctl*|*metrics*) tries=100 ;; esac
	while [ $tries -gt 0 ]; do
		said=$(eval "$2" 2>&1 | tr -s ' ')
		case "$said" in *"$1"*) echo "$said"; return 0 ;; esac
		tries=$((tries - 1))
		sleep 0.2
	done
	echo "NOT SAID: $1"; echo "BY: $2"; echo "$said"
	exit 1
}
`

// shell runs the commands of a section.
func (m *machine) shell(title, script string) {
	m.t.Helper()
	var b strings.Builder
	b.WriteString(expect)
	for line := range strings.Lines(m.translated(script)) {
		command, says, expected := strings.Cut(strings.TrimSuffix(line, "\n"), " # ")
		if expected {
			line = fmt.Sprintf("expect %s %s\n", quoted(says), quoted(command))
		}
		b.WriteString(line)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-e")
	sh.Args = append(sh.Args, "-c", b.String())
	sh.Dir = m.dir
	sh.Env = append(os.Environ(), "PATH="+m.path("bin")+":"+os.Getenv("PATH"))
	sh.Stdin = strings.NewReader(cfToken + "\n") // what is pasted
	out, err := sh.CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", title, err, out)
	}
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
