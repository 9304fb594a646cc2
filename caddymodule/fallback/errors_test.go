package fallback_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func app(inside string) string { return "{\n\tedge_fallback {\n" + inside + "\n\t}\n}\n" }

func line(text string) string { return "\t\t\t" + text + "\n" }

// home is the block of a home with one tier; more stands behind it. The block begins in
// line 3, and more in line 5.
func home(more ...string) string {
	return app("\t\thome attic {\n" + line("tier 1 {\n\t\t\t}") + strings.Join(more, "") + "\t\t}")
}

// item is a container with options; the first of them stands in line 6.
func item(options ...string) string {
	return app("\t\thome attic {\n\t\t\ttier 1 {\n\t\t\t\tcontainer emby {\n\t\t\t\t\t" + strings.Join(options, "\n\t\t\t\t\t") + "\n\t\t\t\t}\n\t\t\t}\n\t\t}")
}

// two are two homes that cover each other; more stands before them.
func two(more, attic, cellar string) string {
	block := func(id, by, port, inside string) string {
		return "\t\thome " + id + " {\n\t\t\tpeer 127.0.0.1:" + port + "\n\t\t\tcovered_by " + by + "\n" + inside + "\t\t\ttier 1 {\n\t\t\t}\n\t\t}\n"
	}
	return app("\t\tid attic\n" + more + block("attic", "cellar", "7443", attic) + block("cellar", "attic", "7444", cellar))
}

// TestCaddyfileErrors holds the exact words for each mistake: what is wrong, the
// setting to change, and the line.
func TestCaddyfileErrors(t *testing.T) {
	cases := []struct{ name, caddyfile, want string }{
		{"unknown option", app("\t\thme attic"), `"hme" is not known here: want one of address, adopt, api, carry_limit, cloudflare, cover_when, docker, down, drill_due, drill_window, grace, home, id, interval, lease, limit, notify, pause, peer, reclaim_after, remind, resolver, resolver_timeout, retry, roots, rsync, single, stagger, state_dir, strikes, tries, ttl, witness, at Caddyfile:3`},
		{"argument behind edge_fallback", "{\n\tedge_fallback on {\n\t}\n}\n", `wrong argument count or unexpected line ending after 'on', at Caddyfile:2`},
		{"single with an argument", app("\t\tsingle yes"), `wrong argument count or unexpected line ending after 'yes', at Caddyfile:3`},
		{"bad duration", app("\t\tinterval often"), `interval "often": want a duration like 30s, at Caddyfile:3`},
		{"interval too short", app("\t\tinterval 1ms"), `interval: 1ms: want at least 100ms, at Caddyfile:4`},
		{"down of none", app("\t\tdown 0"), `down 0: want at least 1, at Caddyfile:3`},
		{"strikes in words", app("\t\tstrikes few"), `strikes "few": want a number, at Caddyfile:3`},
		{"cover_when something else", app("\t\tcover_when asked"), `cover_when "asked": want unhealthy, at Caddyfile:3`},
		{"cover_when with none", app("\t\tcover_when unhealthy 0"), `unhealthy 0: want at least 1, at Caddyfile:3`},
		{"unknown word of lease", app("\t\tlease ttl 45s fnce 20s"), `"fnce" is not known here: want one of fence, settle, ttl, at Caddyfile:3`},
		{"retry with too much", app("\t\tretry 1s 2s 3s"), `wrong argument count or unexpected line ending after '3s', at Caddyfile:3`},
		{"bad ttl", app("\t\tttl 5"), `ttl: 5: want 60 to 86400 seconds, at Caddyfile:4`},
		{"bad api", app("\t\tapi ftp://example.com"), `api: "ftp://example.com": want a base URL like https://api.example.com/client/v4, at Caddyfile:4`},
		{"api in the clear", app("\t\tapi http://api.example.com"), `api: "http://api.example.com": want https, for the token goes there, at Caddyfile:4`},
		{"peer with a certificate alone", app("\t\tpeer cert /a.pem"), `peer: cert: cert, key and ca go together: want all of them, or none for those of edge_cluster, at Caddyfile:4`},
		{"peer with a relative file", app("\t\tpeer cert a.pem key /a.key ca /ca.pem"), `peer: cert: "a.pem": want an absolute path, at Caddyfile:4`},
		{"peer on a range of ports", app("\t\tpeer listen :7443-7445"), `peer: listen: ":7443-7445": want an address and a port, like :7443 or 10.8.0.2:7443, at Caddyfile:4`},
		{"peer on a socket", app("\t\tpeer listen unix//run/x.sock"), `peer: listen: "unix//run/x.sock": want an address and a port, like :7443 or 10.8.0.2:7443, at Caddyfile:4`},
		{"unknown word of peer", app("\t\tpeer lsten :1"), `"lsten" is not known here: want one of ca, cert, key, listen, at Caddyfile:3`},
		{"docker with a bad host", app("\t\tdocker /var/run/docker.sock"), `docker: host: "/var/run/docker.sock": want unix:///<path> or tcp://<host>:<port>, at Caddyfile:4`},
		{"docker with half of TLS", app("\t\tdocker tcp://127.0.0.1:2376 ca /ca.pem"), `docker: ca: ca, cert and key go together: want all of them or none, at Caddyfile:4`},
		{"cloudflare without zone", app("\t\tcloudflare example.com"), `want: cloudflare zone <id or name>, at Caddyfile:3`},
		{"two tokens", app("\t\tcloudflare zone example.com token x token_file /x"), `zones[0]: token: token, token_file and credential: want one of them, at Caddyfile:4`},
		{"zone twice", app("\t\tcloudflare zone example.com token x\n\t\tcloudflare zone example.com token y"), `zones[1]: zone: example.com is there twice, at Caddyfile:5`},
		{"address maybe", app("\t\taddress maybe"), `address maybe: want off or a block, at Caddyfile:3`},
		{"address off with a source", app("\t\taddress off {\n\t\t\tsource https://ip.example.com/\n\t\t}"), `address: off: it is off, and there is a source or an interface: want one of them, at Caddyfile:6`},
		{"one source", app("\t\taddress {\n\t\t\tsource https://ip.example.com/\n\t\t}"), `address: source: the sources have 1 operator, want at least 2: one alone is not believed, at Caddyfile:6`},
		{"source with too much", app("\t\taddress {\n\t\t\tsource https://ip.example.com/ text a b\n\t\t}"), `want: source <url> [text|trace] [<operator>], at Caddyfile:4`},
		{"resolver without an address", app("\t\tresolver https://dns.example.com/"), `want: resolver <https url> <ip:port>, at Caddyfile:3`},
		{"resolver without TLS", app("\t\tresolver http://dns.example.com/ 9.9.9.9:80"), `resolvers[0]: resolver: url is "http://dns.example.com/": want one like https://dns.example.com/dns-query, at Caddyfile:4`},
		{"one witness", app("\t\twitness tcp 9.9.9.9:443"), `witness: target: 1 address: want at least 2, for one that is filtered is no outage, at Caddyfile:4`},
		{"two witnesses at one address", app("\t\twitness tcp 9.9.9.9:443 9.9.9.9:53"), `witness: target: 1 address: want at least 2, for one that is filtered is no outage, at Caddyfile:4`},
		{"witness without a port", app("\t\twitness tcp 9.9.9.9 8.8.4.4:443"), `witness: targets[0]: address: "9.9.9.9": want an address and a port, like 192.0.2.1:443 or [2001:db8::1]:443, at Caddyfile:4`},
		{"target without an address", app("\t\twitness {\n\t\t\ttarget 9.9.9.9:443\n\t\t}"), `want: target <name> <ip:port>, at Caddyfile:4`},
		{"notify without a URL", app("\t\tnotify"), `notify needs a URL, at Caddyfile:3`},
		{"notify with a bad URL", app("\t\tnotify pigeon"), `notify[0]: url: notify: channel without a name: the URL has no scheme, such as https:// or telegram://, at Caddyfile:4`},
		{"two webhooks without names", app("\t\tnotify https://a.example.com/\n\t\tnotify https://b.example.com/"), `notify[1]: name: channel webhook is there twice: give each a name of its own, at Caddyfile:5`},

		{"home without an id", app("\t\thome {\n\t\t}"), `home needs its id, at Caddyfile:3`},
		{"home with a bad id", app("\t\thome at/tic {\n\t\t\ttier 1 {\n\t\t\t}\n\t\t}"), `home at/tic: id: home id "at/tic": want at most 24 letters, digits, dots, hyphens and underscores, for it stands in the comments of records, at Caddyfile:3`},
		{"home twice", app("\t\thome attic {\n\t\t\ttier 1 {\n\t\t\t}\n\t\t}\n\t\thome attic {\n\t\t}"), `home attic is there twice, at Caddyfile:7`},
		{"home without a tier", app("\t\thome attic {\n\t\t}"), `home attic: it has no tier 1, at Caddyfile:3`},
		{"home that covers itself", home(line("covered_by attic")), `home attic: covered_by names the home itself, at Caddyfile:3`},
		{"home covered twice by one", home(line("covered_by cellar cellar")), `home attic: covered_by names a home twice, at Caddyfile:3`},
		{"peer without a port", home(line("peer cellar")), `home attic: peer: "cellar": want host:port, as the other homes dial it, at Caddyfile:3`},
		{"unknown word of a home", home(line("coverd_by cellar")), `"coverd_by" is not known here: want one of covered_by, dns, mount, names, peer, ssh, tier, warm, at Caddyfile:6`},
		{"dns without names", home(line("dns")), `dns needs the names that lead to the home, at Caddyfile:6`},
		{"names without an item", home(line("names a.example.com")), `home attic: names are for the records of an item with dns, and it has none, at Caddyfile:3`},
		{"names that nobody finds", app("\t\tid attic\n\t\taddress off\n\t\thome attic {\n" + line("names a.example.com") + line("tier 1 {\n\t\t\t\tunit ddns.service dns\n\t\t\t}") + "\t\t}"), `home attic: names: address is off, so nobody knows where they should lead: remove one of them, at Caddyfile:5`},
		{"drill_window of no time", app("\t\tdrill_window 02:00-05:00 someday"), `drill_window: "02:00-05:00 someday": want times and perhaps days, like 02:00-05:00 sat sun, at Caddyfile:4`},
		{"drill_window without a time", app("\t\tdrill_window"), `wrong argument count or unexpected line ending after 'drill_window', at Caddyfile:3`},
		{"drill_due of no time", app("\t\tdrill_due never"), `drill_due "never": want a duration like 30s, at Caddyfile:3`},
		{"dns twice", home(line("dns a.example.com"), line("dns b.example.com")), `dns is there twice: want all names in one, at Caddyfile:7`},
		{"dns of another family", home(line("dns a.example.com {\n\t\t\t\tfamilies ipx\n\t\t\t}")), `families ipx: want ipv4, ipv6 or both, at Caddyfile:7`},
		{"dns with a bad address", home(line("dns a.example.com {\n\t\t\t\tfixed attic here\n\t\t\t}")), `home attic: dns: fixed attic: "here": want an address, at Caddyfile:3`},
		{"dns with a home alone", home(line("dns a.example.com {\n\t\t\t\tfixed attic\n\t\t\t}")), `want: fixed <home> <ip>..., at Caddyfile:7`},
		{"warm without a kind", home(line("warm npm")), `"npm" is not known here: want one of command, compose, container, unit, at Caddyfile:6`},
		{"tier without a number", home(line("tier")), `want: tier <n> [<duration>|now], at Caddyfile:6`},
		{"tier with a bad number", home(line("tier one")), `tier one: want its number, from 1 on, at Caddyfile:6`},
		{"tier with a bad time", home(line("tier 2 soon")), `tier 2 "soon": want a duration like 30s, at Caddyfile:6`},
		{"tier 3 without tier 2", home(line("tier 3 {\n\t\t\t}")), `home attic: tier 3 stands where tier 2 should, at Caddyfile:3`},
		{"tier before the one before", home(line("tier 2 5h {\n\t\t\t}"), line("tier 3 4h {\n\t\t\t}")), `home attic: tier 3: after 4h0m0s is earlier than that of tier 2, at Caddyfile:3`},
		{"fifth tier without a time", home(line("tier 2"), line("tier 3"), line("tier 4"), line("tier 5")), `home attic: tier 5: after: it is missing: there is a default for the first 4 tiers only, at Caddyfile:3`},
		{"bad bandwidth", home(line("tier 2 {\n\t\t\t\tbandwidth fast\n\t\t\t}")), `bandwidth "fast": want bytes a second, like 50MiB, at Caddyfile:7`},

		{"item without a name", home(line("tier 2 {\n\t\t\t\tcontainer\n\t\t\t}")), `container needs a name, at Caddyfile:7`},
		{"item with a bad name", home(line("tier 2 {\n\t\t\t\tcontainer a/b\n\t\t\t}")), `container a/b: name: "a/b": want letters, digits and -_.@: only; ref names what it is elsewhere, at Caddyfile:7`},
		{"item twice", home(line("tier 2 {\n\t\t\t\tunit a\n\t\t\t\tunit a\n\t\t\t}")), `home attic: item "a": the name is empty or used twice, at Caddyfile:3`},
		{"unknown word of an item", item("aftr db"), `"aftr" is not known here: want one of after, data, dns, network, optional, path, ready, ref, stop_within, volume, at Caddyfile:6`},
		{"start of a container", item("start /bin/true"), `"start" is not known here: want one of after, data, dns, network, optional, path, ready, ref, stop_within, volume, at Caddyfile:6`},
		{"ready of no time", item("ready 0s"), `ready "0s": want a duration like 30s, at Caddyfile:6`},
		{"after what is not there", item("after db"), `home attic: item emby: after names db, which is in no tier up to 1, at Caddyfile:3`},
		{"after itself", item("after emby"), `home attic: tier 1: its items wait for each other in a circle, at Caddyfile:3`},
		{"path that is relative", item("path srv"), `container emby: path: "srv": want an absolute path, at Caddyfile:5`},
		{"data without a directory", item("data"), `data needs its directory, at Caddyfile:6`},
		{"data that is relative", item("data srv"), `container emby: data srv: path: "srv": want an absolute path, at Caddyfile:5`},
		{"data that is everything", item("data /"), `container emby: data /: path: "/": want a directory of the item's own, at Caddyfile:5`},
		{"data at nowhere", item("data /srv {", "\tat cellar", "}"), `want: at <home> <directory>, at Caddyfile:7`},
		{"data with a rule for a pattern", item("data /srv {", `	exclude "- x"`, "}"), `container emby: data /srv: exclude: exclude "- x" of /srv: want a pattern, not a rule, at Caddyfile:5`},
		{"command without look", home(line("tier 2 {\n\t\t\t\tcommand a {\n\t\t\t\t\tstart /a\n\t\t\t\t\tstop /a\n\t\t\t\t}\n\t\t\t}")), `command a: look: it is missing: a command needs start, stop and look, at Caddyfile:7`},
		{"command with ref", home(line("tier 2 {\n\t\t\t\tcommand a {\n\t\t\t\t\tref b\n\t\t\t\t}\n\t\t\t}")), `"ref" is not known here: want one of after, data, dns, look, network, optional, path, ready, start, stop, stop_within, volume, at Caddyfile:8`},
		{"unit with a network", home(line("tier 2 {\n\t\t\t\tunit a {\n\t\t\t\t\tnetwork b\n\t\t\t\t}\n\t\t\t}")), `unit a: network: networks and volumes are Docker's: a unit has none, at Caddyfile:7`},
		{"dns item in tier 2", home(line("tier 2 {\n\t\t\t\tcontainer a dns\n\t\t\t}")), `home attic: item a: dns is for an item of tier 1 of a home without dns of its own, at Caddyfile:3`},

		{"id of no home", strings.Replace(two("", "", ""), "id attic", "id shed", 1), `id: there is no home shed, at Caddyfile:17`},
		{"covered by nobody", two("", line("covered_by nobody"), ""), `home attic: covered_by: there is no home nobody, at Caddyfile:4`},
		{"one address for two homes", two("", "", line("peer 127.0.0.1:7443")), `home cellar: peer: 127.0.0.1:7443 is home attic, at Caddyfile:10`},
		{"domain in no zone", two("", line("dns a.example.com"), ""), `home attic: dns: there is no zone for a.example.com: set cloudflare zone, at Caddyfile:4`},
		{"fixed address of nobody", two("\t\tcloudflare zone example.com token x\n", line("dns a.example.com {\n\t\t\t\tfixed nobody 9.9.9.9\n\t\t\t}"), ""), `home attic: dns: fixed: there is no home nobody, at Caddyfile:5`},
		{"address off without fixed ones", two("\t\taddress off\n\t\tcloudflare zone example.com token x\n", line("dns a.example.com {\n\t\t\t\tfixed attic 9.9.9.9\n\t\t\t}"), ""), `home attic: dns: fixed: address is off, and there is no fixed address of each family for attic, at Caddyfile:6`},
		{"single without certificates", two("\t\tsingle\n", "", ""), `peer: without edge_cluster there are no certificates to use: set cert, key and ca, at Caddyfile:18`},
		{"fence longer than the lease", two("\t\tlease ttl 10s fence 20s\n", "", ""), `fence 20s must be shorter than ttl 10s
ttl 10s less fence 20s must be more than two intervals of 5s, at Caddyfile:18`},
		{"lease too short for the interval", two("\t\tinterval 20s\n", "", ""), `ttl 45s less fence 25s must be more than two intervals of 20s, at Caddyfile:18`},
		{"stop longer than the fence", two("", "\t\t\ttier 2 {\n\t\t\t\tunit a {\n\t\t\t\t\tstop_within 30s\n\t\t\t\t}\n\t\t\t}\n", ""), `home attic: item a: stop_within 30s must be shorter than fence 25s, at Caddyfile:4`},
		{"data over ssh", two("", line("ssh edge@attic")+"\t\t\ttier 2 {\n\t\t\t\tunit a {\n\t\t\t\t\tdata /srv/a\n\t\t\t\t}\n\t\t\t}\n", ""), `home attic: ssh: it carries no data, and item a has some: want peer with certificates, at Caddyfile:4`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := adapt(c.caddyfile)
			if err == nil {
				t.Fatalf("it was taken, want %s", c.want)
			}
			got := strings.TrimPrefix(err.Error(), "parsing caddyfile tokens for 'edge_fallback': ")
			if got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestLoadErrors are mistakes that show only when the config loads.
func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noCert := write("ca.pem", "no certificate")
	config := func(more string) string { return `{"apps":{"edge_fallback":{` + more + `}}}` }
	const attic = `"id":"attic","single":true,"homes":[{"id":"attic","tiers":[{"number":1,"items":[`
	cases := []struct{ name, config, want string }{
		{"nothing", config(``), `id: it is missing: want the home that this machine is in`},
		{"no home", config(`"id":"attic","single":true`), `there is no home`},
		{"id of no home", config(`"id":"shed","single":true,"homes":[{"id":"attic","tiers":[{"number":1}]}]`), `id: there is no home shed`},
		{"id that is not set", config(`"id":"{env.EDGE_NOT_SET}"`), `id: evaluated placeholder {env.EDGE_NOT_SET} is empty`},
		{"no cluster", config(`"id":"attic","homes":[{"id":"attic","tiers":[{"number":1}]}]`), `there is no edge_cluster, in which homes agree who runs what: set edge_cluster, or single if a person is to decide`},
		{"unknown key", config(`"home":1`), `json: unknown field "home"`},
		{"home is null", config(`"id":"attic","homes":[null]`), `homes[0]: it is empty`},
		{"home twice", config(`"id":"attic","single":true,"homes":[{"id":"attic","tiers":[{"number":1}]},{"id":"attic","tiers":[{"number":1}]}]`), `home attic: it is there twice`},
		{"tier is null", config(`"id":"attic","homes":[{"id":"attic","tiers":[null]}]`), `home attic: tiers[0]: it is empty`},
		{"item is null", config(attic + `null]}]}]`), `home attic: tier 1: items[0]: it is empty`},
		{"item of no kind", config(attic + `{"name":"a"}]}]}]`), `home attic: tier 1: a: kind: "": want container, compose, unit or command`},
		{"data is null", config(attic + `{"name":"a","kind":"unit","data":[null]}]}]}]`), `home attic: tier 1: unit a: data: it is empty`},
		{"program on a container", config(attic + `{"name":"a","kind":"container","start":["/a"]}]}]}]`), `home attic: tier 1: container a: start: only a command has start, stop and look`},
		{"negative ready", config(attic + `{"name":"a","kind":"unit","ready":-1}]}]}]`), `home attic: tier 1: unit a: ready: -1ns: want more than 0`},
		{"negative down", config(`"id":"attic","down":-1`), `down: -1: want at least 1`},
		{"zone is null", config(`"zones":[null]`), `zones[0]: zone: it is empty`},
		{"zone without a name", config(`"zones":[{"token":"x"}]`), `zones[0]: zone: it has neither a name nor an id`},
		{"no token", config(`"zones":[{"name":"example.com"}]`), `zones[0]: token: there is neither a token nor a token_file, and no credential: reading secret cf_token: this service has no credentials, see LoadCredential= of its unit: file does not exist`},
		{"no token file", config(`"zones":[{"name":"example.com","token_file":"/nowhere/token"}]`), `zones[0]: token_file: reading secret /nowhere/token: cannot open it: no such file or directory`},
		{"resolver is null", config(`"resolvers":[null]`), `resolvers[0]: resolver: it is empty`},
		{"notify is null", config(`"notify":[null]`), `notify[0]: notify: it is empty`},
		{"notify that is not set", config(`"notify":[{"url":"{env.EDGE_NOT_SET}"}]`), `notify[0]: url: evaluated placeholder {env.EDGE_NOT_SET} is empty`},
		{"unreadable roots", config(`"roots_file":"/nowhere/ca.pem"`), `roots: stat /nowhere/ca.pem: no such file or directory`},
		{"roots that are no file", config(`"roots_file":"` + dir + `"`), `roots: DIR is not a regular file`},
		{"roots without a certificate", config(`"roots_file":"` + noCert + `"`), `roots: DIR/ca.pem holds no certificate in PEM form`},
		{"placeholder with a bad value", config(`"witness":{"targets":[{"address":"{env.EDGE_BAD}"}]}`), `witness: targets[0]: address: "no address": want an address and a port, like 192.0.2.1:443 or [2001:db8::1]:443`},
	}
	t.Setenv("EDGE_BAD", "no address")
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := validateJSON([]byte(c.config))
			if err == nil {
				t.Fatalf("it was taken, want %s", c.want)
			}
			if got := strings.ReplaceAll(err.Error(), dir, "DIR"); !strings.Contains(got, c.want) {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}
