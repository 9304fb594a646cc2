package watchdog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func app(inside string) string { return "{\n\tedge_watchdog {\n" + inside + "\n\t}\n}\n" }

// Parts of a site, each on one line. A site's block begins in line 3.
const (
	health = "\t\t\thealth health.example.com\n"
	one    = "\t\t\tpath one a 8.8.4.4\n"
	two    = "\t\t\tpath two a 9.9.9.9\n"
	zone   = "\t\tcloudflare zone example.com token x\n"
)

func block(lines ...string) string {
	return "\t\tsite example.com {\n" + strings.Join(lines, "") + "\t\t}"
}

func line(text string) string { return "\t\t\t" + text + "\n" }

// TestCaddyfileErrors holds the exact words for each mistake: what is wrong, the
// setting to change, and the line.
func TestCaddyfileErrors(t *testing.T) {
	site := func(more string) string { return app(block(health, one, two, line(more))) } // more is line 7
	cases := []struct{ name, caddyfile, want string }{
		{"unknown option", app("\t\tste example.com"), `"ste" is not known here: want one of api, apply, cloudflare, council, dead_man, home, keep_dwell, notify, preset, read_interval, remind, resolver, resolver_timeout, roots, site, state_dir, witness, witness6, at Caddyfile:3`},
		{"argument behind edge_watchdog", "{\n\tedge_watchdog on {\n\t}\n}\n", `wrong argument count or unexpected line ending after 'on', at Caddyfile:2`},
		{"apply with an argument", app("\t\tapply yes"), `wrong argument count or unexpected line ending after 'yes', at Caddyfile:3`},
		{"bad duration", app("\t\tread_interval often"), `read_interval "often": want a duration like 30s, at Caddyfile:3`},
		{"bad api", app("\t\tapi ftp://example.com"), `api: "ftp://example.com": want a base URL like https://api.example.com/client/v4, at Caddyfile:4`},
		{"api in the clear", app("\t\tapi http://api.example.com"), `api: "http://api.example.com": want https, for the token goes there, at Caddyfile:4`},
		{"resolver without an address", app("\t\tresolver https://dns.example.com/"), `want: resolver <https url> <ip:port>, at Caddyfile:3`},
		{"resolver with a name for an address", app("\t\tresolver https://dns.example.com/ dns.example.com:443"), `resolvers[0]: address: "dns.example.com:443": want an address and a port, like 192.0.2.1:443 or [2001:db8::1]:443, at Caddyfile:4`},
		{"resolver without TLS", app("\t\tresolver http://dns.example.com/ 9.9.9.9:80"), `resolvers[0]: resolver: url is "http://dns.example.com/": want one like https://dns.example.com/dns-query, at Caddyfile:4`},
		{"bad witness", app("\t\twitness maybe"), `witness maybe: want on, off or a block, at Caddyfile:3`},
		{"witness needs more than there are", app("\t\twitness {\n\t\t\tneed 4\n\t\t}"), `witness: need: 4: want 1 to 3, for so many targets there are, at Caddyfile:6`},
		{"witness off with targets", app("\t\twitness off {\n\t\t\ttarget a.example.com 9.9.9.9:443\n\t\t}"), `witness: it is off and has targets: want one of them, at Caddyfile:6`},
		{"witness of the other family", app("\t\twitness6 {\n\t\t\ttarget a.example.com 9.9.9.9:443\n\t\t}"), `witness6: targets[0]: address: 9.9.9.9:443 is of the other family: IPv4 belongs into witness, IPv6 into witness6, at Caddyfile:6`},
		{"target without a name", app("\t\twitness {\n\t\t\ttarget 9.9.9.9:443\n\t\t}"), `want: target <name> <ip:port>, at Caddyfile:4`},
		{"cloudflare without zone", app("\t\tcloudflare example.com"), `want: cloudflare zone <id or name>, at Caddyfile:3`},
		{"unknown zone option", app("\t\tcloudflare zone example.com tokn x"), `"tokn" is not known here: want one of credential, id, name_servers, token, token_file, at Caddyfile:3`},
		{"two tokens", app("\t\tcloudflare zone example.com token x token_file /x"), `zones[0]: token: token, token_file and credential: want one of them, at Caddyfile:4`},
		{"zone twice", app(zone + zone + block(health, one, two)), `zone example.com is there twice, at Caddyfile:10`},
		{"site in no zone", app("\t\tcloudflare zone example.org token x\n" + block(health, one, two)), `site example.com: example.com is in none of the zones, at Caddyfile:9`},
		{"name in two sites", app(zone + block(health, one, two) + "\n" + block(health, one, two, line("name other"))), `site other: example.com belongs to site example.com already, at Caddyfile:15`},
		{"notify without a URL", app("\t\tnotify"), `notify needs a URL, at Caddyfile:3`},
		{"notify with a bad URL", app("\t\tnotify pigeon"), `notify[0]: url: notify: channel without a name: the URL has no scheme, such as https:// or telegram://, at Caddyfile:4`},
		{"two webhooks without names", app("\t\tnotify https://a.example.com/\n\t\tnotify https://b.example.com/"), `notify[1]: name: channel webhook is there twice: give each a name of its own, at Caddyfile:5`},
		{"dead_man with a bad URL", app("\t\tdead_man ping"), `dead_man: dead-man URL: want https://host/..., as the service shows it, at Caddyfile:4`},
		{"dead_man with a bad duration", app("\t\tdead_man https://ping.example.com/ often"), `dead_man "often": want a duration like 30s, at Caddyfile:3`},
		{"council of one", app("\t\tcouncil attic"), `want: council <this watchdog> <the others>..., at Caddyfile:3`},
		{"council with a name twice", app("\t\tcouncil attic cellar attic"), `council: names: attic is there twice, at Caddyfile:4`},
		{"council with a bad name", app("\t\tcouncil attic Cellar"), `council: names: "Cellar": want lower-case letters, digits and hyphens, at Caddyfile:4`},
		{"bad preset", app("\t\tpreset lazy"), `preset "lazy": want fast or careful, at Caddyfile:3`},

		{"site without a name", app("\t\tsite {\n\t\t}"), `site needs the names that move together, at Caddyfile:3`},
		{"site without health", app(block(one, two)), `site example.com: health: it is missing, at Caddyfile:3`},
		{"site with a bad name", app("\t\tsite exa_mple.com {\n" + health + one + two + "\t\t}"), `site exa_mple.com: name "exa_mple.com": "exa_mple" holds more than letters, digits and hyphens: write an international name in its xn-- form, at Caddyfile:3`},
		{"one path", app(block(health, one)), `site example.com: it has 1 paths: want at least 2, or there is nothing to choose, at Caddyfile:3`},
		{"unknown site option", site("heath x"), `"heath" is not known here: want one of budget, burst, burst_for, create, dwell, failures, gap, health, interval, local, name, path, preset, proof, recovery, slow, standby_interval, timeout, tolerance, withdraw_aaaa, at Caddyfile:7`},
		{"failures in words", site("failures many"), `failures many: want so many in a row like 4, or so many of the last ones like 7 of 9, at Caddyfile:7`},
		{"failures without of", site("failures 7 9"), `failures 7 9: want so many in a row like 4, or so many of the last ones like 7 of 9, at Caddyfile:7`},
		{"failures of none", site("failures 0"), `failures 0: want so many in a row like 4, or so many of the last ones like 7 of 9, at Caddyfile:7`},
		{"one failure", site("failures 1"), `site example.com: failures is 1: want at least 2, for one lost packet is not an outage`},
		{"window too small", site("failures 7 of 6"), `site example.com: window is 6: want failures (7) to 32, at Caddyfile:3`},
		{"budget in words", site("budget few"), `budget "few": want a number or off, at Caddyfile:7`},
		{"negative tolerance", site("tolerance -3"), `tolerance "-3": want a number or off, at Caddyfile:7`},
		{"interval too short", site("interval 10ms"), `site example.com: interval is 10ms: want at least 100ms`},
		{"timeout too long", site("timeout 1m"), `site example.com: timeout is 1m0s: want 100ms to 15s, at Caddyfile:3`},
		{"bad site preset", site("preset lazy"), `preset "lazy": want fast or careful, at Caddyfile:7`},
		{"local without an address", site("local"), `want: local <ip:port>, at Caddyfile:7`},
		{"local without a port", site("local 192.168.1.10"), `site example.com: local: address: "192.168.1.10": want an address and a port, like 192.0.2.1:443 or [2001:db8::1]:443, at Caddyfile:3`},
		{"unknown local option", site("local 192.168.1.10:443 scret x"), `"scret" is not known here: want one of credential, secret, secret_file, at Caddyfile:7`},

		{"path without a name", site("path"), `path needs a name, at Caddyfile:7`},
		{"path without an address", site("path three"), `site example.com: path three: it has no address: want a, aaaa or both`},
		{"path with a name for an address", site("path three a example.com"), `site example.com: path three: a: "example.com": want an address, at Caddyfile:3`},
		{"path with an IPv6 address as a", site("path three a 2001:4860:4860::8844"), `site example.com: path three: a 2001:4860:4860::8844: want an IPv4 address, at Caddyfile:3`},
		{"path with an address of the documentation", site("path three a 198.51.100.7"), `site example.com: path three: 198.51.100.7 is in 198.51.100.0/24, documentation (RFC 5737): not a public address, at Caddyfile:3`},
		{"path with an address of the LAN", site("path three a 192.168.1.10"), `site example.com: path three: 192.168.1.10 is in 192.168.0.0/16, private (RFC 1918): not a public address, at Caddyfile:3`},
		{"path twice", site("path one a 1.1.1.1"), `site example.com: path "one": want a name of its own, at Caddyfile:3`},
		{"one address on two paths", site("path three a 9.9.9.9"), `site example.com: path three: its address is that of path two, at Caddyfile:3`},
		{"proxied without a canary", site("path three a 1.1.1.1 proxied"), `site example.com: path three: it is proxied and has no canary: its records do not show where visitors end, at Caddyfile:3`},
		{"canary that moves", site("path three a 1.1.1.1 proxied canary example.com"), `site example.com: path three: canary example.com moves with the site: it must stay on this path, at Caddyfile:3`},
		{"bad ttl", site("path three a 1.1.1.1 ttl soon"), `ttl "soon": want a number, at Caddyfile:7`},
		{"ttl too short", site("path three a 1.1.1.1 ttl 5"), `site example.com: path three: ttl is 5: want 60 to 86400 seconds (30 with an Enterprise plan), at Caddyfile:3`},
		{"unknown path option", site("path three a 1.1.1.1 proxy"), `"proxy" is not known here: want one of a, aaaa, away, canary, health, origin, probe, probe6, proxied, ttl, at Caddyfile:7`},
		{"bad probe", site("path three a 1.1.1.1 probe 127.0.0.1"), `site example.com: path three: probe: "127.0.0.1": want an address and a port, like 192.0.2.1:443 or [2001:db8::1]:443, at Caddyfile:3`},

		{"health without a host", site("health"), `want: health <host> [<path> [<body>]], at Caddyfile:7`},
		{"health with too much", site("health a.example.com / ok more"), `want: health <host> [<path> [<body>]], at Caddyfile:7`},
		{"health with an unknown escape", site(`health a.example.com / "\x41"`), `health: body "\\x41": want \n, \r, \t, \" or \\ behind a backslash, at Caddyfile:7`},
		{"health with a relative path", site("health a.example.com alive"), `site example.com: health: probe: path is "alive": want it to begin with / and to hold neither space nor #, at Caddyfile:3`},
		{"health with a query", site("health a.example.com /alive?x"), `site example.com: health: path "/alive?x": want an absolute path without a query, at Caddyfile:3`},
		{"health with a bad shape", site("health a.example.com {\n\t\t\t\tshape round\n\t\t\t}"), `shape "round": want ordinary or post_quantum or split, at Caddyfile:8`},
		{"health with a bad status", site("health a.example.com {\n\t\t\t\tstatus 99\n\t\t\t}"), `site example.com: health: probe: status is 99: want 200 to 599, at Caddyfile:3`},
		{"rule without a path", site("health a.example.com {\n\t\t\t\trule\n\t\t\t}"), `rule needs the path of a value, or . for the document, at Caddyfile:8`},
		{"rule with a bad path", site("health a.example.com {\n\t\t\t\trule a..b\n\t\t\t}"), `rule: path "a..b" has an empty name, at Caddyfile:8`},
		{"rule with a bad type", site("health a.example.com {\n\t\t\t\trule a type map\n\t\t\t}"), `rule: type is "map": want string, number, integer, bool, array or object, at Caddyfile:8`},
		{"rule with a bad limit", site("health a.example.com {\n\t\t\t\trule a min few\n\t\t\t}"), `min "few": want a number, at Caddyfile:8`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := adapt(c.caddyfile)
			if err == nil {
				t.Fatalf("it was taken, want %s", c.want)
			}
			got := strings.TrimPrefix(err.Error(), "parsing caddyfile tokens for 'edge_watchdog': ")
			first, _, _ := strings.Cut(got, "\n")
			if got != c.want && first != c.want {
				t.Errorf("\n got %s\nwant %s", err, c.want)
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
	noCert, badRules := write("ca.pem", "no certificate"), write("rules.json", `[{"pth":"x"}]`)
	empty, badToken := write("empty", ""), write("token", "two words")
	const paths = `"paths":[{"name":"one","a":"8.8.4.4"},{"name":"two","a":"9.9.9.9"}]`
	config := func(more, zone, site string) string {
		return `{"apps":{"edge_watchdog":{` + more + `"zones":[{"name":"example.com"` + zone + `}],"sites":[{"names":["example.com"],` + site + `}]}}}`
	}
	token := `,"token":"x"`
	good := `"health":{"host":"a.example.com"},` + paths
	cases := []struct{ name, config, want string }{
		{"nothing", `{"apps":{"edge_watchdog":{}}}`, `there is no site`},
		{"no zone", `{"apps":{"edge_watchdog":{"sites":[{"names":["example.com"],` + good + `}]}}}`, `there is no zone`},
		{"unknown key", config(`"sits":1,`, token, good), `json: unknown field "sits"`},
		{"unknown key of a policy", config("", token, good+`,"failurs":1`), `json: unknown field "failurs"`},
		{"zone is null", `{"apps":{"edge_watchdog":{"zones":[null]}}}`, `zones[0]: zone: it is empty`},
		{"site is null", `{"apps":{"edge_watchdog":{"sites":[null]}}}`, `sites[0]: site: it is empty`},
		{"path is null", config("", token, `"health":{"host":"a.example.com"},"paths":[null]`), `site example.com: paths[0]: path: it is empty`},
		{"path without a name", config("", token, `"health":{"host":"a.example.com"},"paths":[{"a":"8.8.4.4"}]`), `site example.com: paths[0]: name: it is missing`},
		{"notify is null", config(`"notify":[null],`, token, good), `notify[0]: notify: it is empty`},
		{"resolver is null", config(`"resolvers":[null],`, token, good), `resolvers[0]: resolver: it is empty`},
		{"resolver without an address", config(`"resolvers":[{"url":"https://dns.example.com/"}],`, token, good), `resolvers[0]: address: it is missing`},
		{"no token", config("", "", good), `zones[0]: token: there is neither a token nor a token_file, and no credential: reading secret cf_token: this service has no credentials, see LoadCredential= of its unit: file does not exist`},
		{"no token file", config("", `,"token_file":"/nowhere/token"`, good), `zones[0]: token_file: reading secret /nowhere/token: cannot open it: no such file or directory`},
		{"bad token file", config("", `,"token_file":"`+badToken+`"`, good), `zones[0]: token_file: reading secret DIR/token: it holds a space, a second line or a character that is not printable ASCII`},
		{"empty placeholder", config("", `,"token":"{env.EDGE_NOT_SET}"`, good), `zones[0]: token: evaluated placeholder {env.EDGE_NOT_SET} is empty`},
		{"empty file placeholder", config("", `,"token":"{file.`+empty+`}"`, good), `zones[0]: token: evaluated placeholder {file.DIR/empty} is empty`},
		{"empty placeholder in a path", config("", token, `"health":{"host":"a.example.com"},"paths":[{"name":"one","a":"{env.EDGE_NOT_SET}"}]`), `site example.com: path one: a: evaluated placeholder {env.EDGE_NOT_SET} is empty`},
		{"placeholder with a bad value", config("", token, `"health":{"host":"a.example.com"},"paths":[{"name":"one","a":"{env.EDGE_BAD}"}]`), `site example.com: path one: a: "no address": want an address`},
		{"unreadable roots", config(`"roots_file":"/nowhere/ca.pem",`, token, good), `roots: stat /nowhere/ca.pem: no such file or directory`},
		{"roots that are no file", config(`"roots_file":"`+dir+`",`, token, good), `roots: DIR is not a regular file`},
		{"roots without a certificate", config(`"roots_file":"`+noCert+`",`, token, good), `roots: DIR/ca.pem holds no certificate in PEM form`},
		{"rules file with an unknown key", config("", token, `"health":{"host":"a.example.com","rules_file":"`+badRules+`"},`+paths), `site example.com: health: rules_file: reading DIR/rules.json: json: unknown field "pth"`},
		{"node with a space", config("", token, `"health":{"host":"a.example.com","node":"a b"},`+paths), `site example.com: health: probe: node is "a b": want at most 64 letters, without spaces`},
		{"bad preset", config("", token, good+`,"preset":"lazy"`), `site example.com: preset: "lazy": want fast or careful`},
		{"bad preset of the app", config(`"preset":"lazy",`, token, good), `site example.com: preset: "lazy": want fast or careful`},
		{"read too often", config(`"read_interval":1000000000,`, token, good), `read_interval is 1s: want at least 5s`},
		{"negative timeout", config(`"resolver_timeout":-1,`, token, good), `resolver_timeout: -1ns: want more than 0`},
		{"notify with a secret that is not signed", config(`"notify":[{"url":"ntfy://ntfy.sh/x","secret":"s"}],`, token, good), `notify[0]: url: notify: channel ntfy: only a webhook is signed, remove the secret`},
		{"notify that is not set", config(`"notify":[{"url":"{env.EDGE_NOT_SET}"}],`, token, good), `notify[0]: url: evaluated placeholder {env.EDGE_NOT_SET} is empty`},
		{"careful with a long interval", config(`"preset":"careful",`, token, good+`,"interval":60000000000`), `standby_interval is 15s: want at least interval, which is 1m0s`},
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
