package edge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gatewayA and homePool are lines 3 to 8 of a Caddyfile that begins with them.
const (
	gatewayA = "\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t}\n"
	homePool = "\t\tpool home {\n\t\t\tmembers a\n\t\t}\n"
)

func edge(inside string) string { return "{\n\tedge {\n" + inside + "\n\t}\n}\n" }

// TestCaddyfileErrors holds the exact words for each mistake: what is wrong, the
// setting to change, and the line.
func TestCaddyfileErrors(t *testing.T) {
	known := gatewayA + homePool // lines 3 to 8
	cases := []struct{ name, caddyfile, want string }{
		{"unknown option", edge("\t\tgatway a"), `parsing caddyfile tokens for 'edge': "gatway" is not known here: want one of database, drain, gateway, listen, notify, pool, ports, at Caddyfile:3`},
		{"unknown gateway option", edge("\t\tgateway a {\n\t\t\tdail 192.0.2.1:443\n\t\t}"), `parsing caddyfile tokens for 'edge': "dail" is not known here: want one of check, dial, http_port, proxy_protocol, token, at Caddyfile:4`},
		{"argument behind edge", "{\n\tedge on {\n\t}\n}\n", `parsing caddyfile tokens for 'edge': wrong argument count or unexpected line ending after 'on', at Caddyfile:2`},
		{"gateway without a name", edge("\t\tgateway {\n\t\t\tdial 192.0.2.1:443\n\t\t}"), `parsing caddyfile tokens for 'edge': gateway needs a name, at Caddyfile:3`},
		{"gateway without dial", edge("\t\tgateway a {\n\t\t}"), `parsing caddyfile tokens for 'edge': gateway a has no dial, at Caddyfile:4`},
		{"duplicate gateway", edge(gatewayA + gatewayA), `parsing caddyfile tokens for 'edge': gateway a is there twice, at Caddyfile:6`},
		{"duplicate gateway in two blocks", "{\n\tedge {\n" + gatewayA + "\t}\n\tedge {\n" + gatewayA + "\t}\n}\n", `parsing caddyfile tokens for 'edge': gateway a is there twice, at Caddyfile:8`},
		{"dial without a port", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1\n\t\t}"), `parsing caddyfile tokens for 'edge': gateway a: dial "192.0.2.1": want host:port, at Caddyfile:6`},
		{"dial with a bad port", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:99999\n\t\t}"), `parsing caddyfile tokens for 'edge': gateway a: dial "192.0.2.1:99999": port "99999" is not a port, at Caddyfile:6`},
		{"bad proxy_protocol", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tproxy_protocol v3\n\t\t}"), `parsing caddyfile tokens for 'edge': proxy_protocol "v3": want v1 or v2, at Caddyfile:5`},
		{"bad check kind", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck ping\n\t\t}"), `parsing caddyfile tokens for 'edge': check "ping": want tcp, tls, https or off, at Caddyfile:5`},
		{"check without a kind", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck\n\t\t}"), `parsing caddyfile tokens for 'edge': check needs a kind: tcp, tls, https or off, at Caddyfile:5`},
		{"check tls without a name", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck tls\n\t\t}"), `parsing caddyfile tokens for 'edge': check tls: want one name behind tls and https, none behind tcp and off, at Caddyfile:5`},
		{"check tcp with a name", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck tcp example.com\n\t\t}"), `parsing caddyfile tokens for 'edge': check tcp: want one name behind tls and https, none behind tcp and off, at Caddyfile:5`},
		{"check tls with a path", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck tls example.com {\n\t\t\t\tpath /x\n\t\t\t}\n\t\t}"), `parsing caddyfile tokens for 'edge': gateway a: check: path, host, status and body need an https check, at Caddyfile:9`},
		{"bad duration", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck tcp {\n\t\t\t\tinterval fast\n\t\t\t}\n\t\t}"), `parsing caddyfile tokens for 'edge': interval "fast": want a duration like 30s, at Caddyfile:6`},
		{"duration of zero", edge("\t\tdrain 0s"), `parsing caddyfile tokens for 'edge': drain "0s": want a duration like 30s, at Caddyfile:3`},
		{"negative duration", edge("\t\tdrain -5s"), `parsing caddyfile tokens for 'edge': drain "-5s": want a duration like 30s, at Caddyfile:3`},
		{"duration without its value", edge("\t\tdrain"), `parsing caddyfile tokens for 'edge': wrong argument count or unexpected line ending after 'drain', at Caddyfile:3`},
		{"two durations", edge("\t\tdrain 5s 6s"), `parsing caddyfile tokens for 'edge': wrong argument count or unexpected line ending after '6s', at Caddyfile:3`},
		{"interval too short", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck tcp {\n\t\t\t\tinterval 1ms\n\t\t\t}\n\t\t}"), `parsing caddyfile tokens for 'edge': gateway a: interval is 1ms: want at least 100ms, at Caddyfile:9`},
		{"bad status", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck https example.com {\n\t\t\t\tstatus 700\n\t\t\t}\n\t\t}"), `parsing caddyfile tokens for 'edge': gateway a: check: reading status "700": want one like 200, 2xx or 200-204, at Caddyfile:8`},
		{"unreadable roots", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck tls example.com {\n\t\t\t\troots /nowhere/ca.pem\n\t\t\t}\n\t\t}"), `parsing caddyfile tokens for 'edge': gateway a: check roots: open /nowhere/ca.pem: no such file or directory, at Caddyfile:8`},
		{"fall is no number", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck tcp {\n\t\t\t\tfall many\n\t\t\t}\n\t\t}"), `parsing caddyfile tokens for 'edge': fall "many": want a number, at Caddyfile:6`},
		{"flag with an argument", edge("\t\tgateway a {\n\t\t\tdial 192.0.2.1:443\n\t\t\tcheck tls example.com {\n\t\t\t\tinsecure yes\n\t\t\t}\n\t\t}"), `parsing caddyfile tokens for 'edge': wrong argument count or unexpected line ending after 'yes', at Caddyfile:6`},

		{"pool without members", edge("\t\tpool home {\n\t\t}"), `parsing caddyfile tokens for 'edge': pool "home": members: there are 0: want 1 to 64, at Caddyfile:4`},
		{"duplicate pool", edge(known + homePool), `parsing caddyfile tokens for 'edge': pool home is there twice, at Caddyfile:9`},
		{"unknown member", edge("\t\tpool home {\n\t\t\tmembers nobody\n\t\t}"), `parsing caddyfile tokens for 'edge': pool home: member nobody is not a gateway, at Caddyfile:6`},
		{"member twice", edge(gatewayA + "\t\tpool home {\n\t\t\tmembers a a\n\t\t}"), `parsing caddyfile tokens for 'edge': pool "home": members: gateway "a" is listed twice, at Caddyfile:8`},
		{"weight 0", edge(gatewayA + "\t\tpool home {\n\t\t\tmembers a*0\n\t\t}"), `parsing caddyfile tokens for 'edge': member "a*0": want a name, or name*weight with a weight of at least 1, at Caddyfile:7`},
		{"weight 1000", edge(gatewayA + "\t\tpool home {\n\t\t\tmembers a*1000\n\t\t}"), `parsing caddyfile tokens for 'edge': pool "home": weight: of "a" is 1000: want 1 to 256, at Caddyfile:8`},
		{"bad policy", edge(gatewayA + "\t\tpool home {\n\t\t\tmembers a\n\t\t\tpolicy random\n\t\t}"), `parsing caddyfile tokens for 'edge': pool home: reading policy "random": want one of failover, round_robin, least_conn, ip_hash, at Caddyfile:9`},
		{"bad failback", edge(gatewayA + "\t\tpool home {\n\t\t\tmembers a\n\t\t\tfailback soon\n\t\t}"), `parsing caddyfile tokens for 'edge': pool home: reading failback "soon": want a duration like 90s, or one of container, hypervisor, nas, slow, vm, windows, at Caddyfile:9`},
		{"bad on_down", edge(gatewayA + "\t\tpool home {\n\t\t\tmembers a\n\t\t\ton_down kill\n\t\t}"), `parsing caddyfile tokens for 'edge': on_down "kill": want keep or close, at Caddyfile:8`},
		{"slow_start with failover", edge(gatewayA + "\t\tpool home {\n\t\t\tmembers a\n\t\t\tslow_start 5s\n\t\t}"), `parsing caddyfile tokens for 'edge': pool "home": slow_start: works with round_robin and least_conn only, not with failover, at Caddyfile:9`},
		{"bad hedge", edge(gatewayA + "\t\tpool home {\n\t\t\tmembers a\n\t\t\thedge never\n\t\t}"), `parsing caddyfile tokens for 'edge': hedge "never": want a duration like 30s, at Caddyfile:8`},
		{"bad outage status", edge(gatewayA + "\t\tpool home {\n\t\t\tmembers a\n\t\t\toutage {\n\t\t\t\tstatus 99\n\t\t\t}\n\t\t}"), `parsing caddyfile tokens for 'edge': pool home: outage status 99: want 200 to 599, at Caddyfile:11`},

		{"listen without an address", edge(known + "\t\tlisten {\n\t\t\troute pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen needs an address, at Caddyfile:9`},
		{"listen without a route", edge(known + "\t\tlisten :443 {\n\t\t\tmanaged off\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: it has no route, at Caddyfile:12`},
		{"unknown pool", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com pool hme\n\t\t}"), `parsing caddyfile tokens for 'edge': Caddyfile:10: pool hme is not defined`},
		{"route without pool", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com home\n\t\t}"), `parsing caddyfile tokens for 'edge': want: route <name>... pool <pool>, or gateway <gateway>, at Caddyfile:10`},
		{"no_name with a name", edge(known + "\t\tlisten :443 {\n\t\t\tno_name example.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': no_name takes no names, at Caddyfile:10`},
		{"bad name", edge(known + "\t\tlisten :443 {\n\t\t\troute exa_mple..com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: name "exa_mple..com" (Caddyfile:10): a label is empty, at Caddyfile:12`},
		{"wildcard not leftmost", edge(known + "\t\tlisten :443 {\n\t\t\troute www.*.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: name "www.*.com" (Caddyfile:10): a wildcard must be the whole first label, as in "*.example.com", at Caddyfile:12`},
		{"duplicate name", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com pool home\n\t\t\troute a.example.com EXAMPLE.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: name "EXAMPLE.com" (Caddyfile:11): already given as "example.com" (Caddyfile:10), at Caddyfile:13`},
		{"plain route beside another", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com pool home\n\t\t\troute pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: a route without names takes every connection: it must be the only one, at Caddyfile:13`},
		{"no_name twice", edge(known + "\t\tlisten :443 {\n\t\t\tno_name pool home\n\t\t\tno_name pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: no_name is there twice, at Caddyfile:12`},
		{"names on UDP", edge(known + "\t\tlisten udp/:443 {\n\t\t\troute example.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen udp/:443: UDP has no server names: want one route, without names, at Caddyfile:11`},
		{"one address twice", edge(known + "\t\tlisten :443 {\n\t\t\troute pool home\n\t\t}\n\t\tlisten :443 {\n\t\t\troute pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443 is there twice, at Caddyfile:15`},
		{"port range", edge(known + "\t\tlisten :443-445 {\n\t\t\troute pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443-445: :443-445: a port range is not possible, at Caddyfile:11`},
		{"bad address", edge(known + "\t\tlisten :port {\n\t\t\troute pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :port: invalid start port: strconv.ParseUint: parsing "port": invalid syntax, at Caddyfile:11`},
		{"bad unknown", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com pool home\n\t\t\tunknown drop\n\t\t}"), `parsing caddyfile tokens for 'edge': unknown "drop": want close or alert, at Caddyfile:11`},
		{"bad wildcard", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com pool home\n\t\t\twildcard two\n\t\t}"), `parsing caddyfile tokens for 'edge': wildcard "two": want any or one, at Caddyfile:11`},
		{"bad hello", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com pool home\n\t\t\thello big\n\t\t}"), `parsing caddyfile tokens for 'edge': hello "big": want a size up to 1MiB or a duration, at Caddyfile:11`},
		{"bad trusted_proxies", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com pool home\n\t\t\ttrusted_proxies lan\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: trusted_proxies: "lan": want an address or a network like 192.0.2.0/24, at Caddyfile:12`},
		{"bad log", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com pool home\n\t\t\tlog sometimes\n\t\t}"), `parsing caddyfile tokens for 'edge': want: log off, log every, or log sample <n>, at Caddyfile:11`},
		{"bad log sample", edge(known + "\t\tlisten :443 {\n\t\t\troute example.com pool home\n\t\t\tlog sample 0\n\t\t}"), `parsing caddyfile tokens for 'edge': log sample "0": want n, to log one connection in n, at Caddyfile:11`},

		{"bad rate", edge(known + "\t\tlisten :443 {\n\t\t\tlimit rate 30/week\n\t\t\troute example.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': rate "30/week": want a rate like 30/s or 90/m, at Caddyfile:10`},
		{"limit without its value", edge(known + "\t\tlisten :443 {\n\t\t\tlimit per_source\n\t\t\troute example.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': wrong argument count or unexpected line ending after 'per_source', at Caddyfile:10`},
		{"unknown limit", edge(known + "\t\tlisten :443 {\n\t\t\tlimit per_ip 100\n\t\t\troute example.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': "per_ip" is not known here: want one of allow, burst, deny, per_source, prefix_v4, prefix_v6, rate, table, total, total_burst, total_rate, at Caddyfile:10`},
		{"burst without rate", edge(known + "\t\tlisten :443 {\n\t\t\tlimit burst 5\n\t\t\troute example.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: limit: burst 5: means nothing without rate, at Caddyfile:12`},
		{"prefix too long", edge(known + "\t\tlisten :443 {\n\t\t\tlimit prefix_v4 33\n\t\t\troute example.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: limit: prefix_v4 33: must be from 0 to 32, at Caddyfile:12`},
		{"bad allow", edge(known + "\t\tlisten :443 {\n\t\t\tlimit {\n\t\t\t\tallow lan\n\t\t\t}\n\t\t\troute example.com pool home\n\t\t}"), `parsing caddyfile tokens for 'edge': listen :443: limit: allow: "lan": want an address or a network like 192.0.2.0/24, at Caddyfile:14`},

		{"edge_sni without a name", "{\n\tlayer4 {\n\t\t:443 {\n\t\t\t@a edge_sni\n\t\t\troute @a {\n\t\t\t\techo\n\t\t\t}\n\t\t}\n\t}\n}\n", `parsing caddyfile tokens for 'layer4': edge_sni needs a name, at Caddyfile:4`},
		{"edge_sni with a block", "{\n\tlayer4 {\n\t\t:443 {\n\t\t\t@a edge_sni example.com {\n\t\t\t\tno_name\n\t\t\t}\n\t\t\troute @a {\n\t\t\t\techo\n\t\t\t}\n\t\t}\n\t}\n}\n", `parsing caddyfile tokens for 'layer4': edge_sni has no block, at Caddyfile:5`},
		{"edge_pool without a pool", "{\n\tlayer4 {\n\t\t:443 {\n\t\t\troute {\n\t\t\t\tedge_pool\n\t\t\t}\n\t\t}\n\t}\n}\n", `parsing caddyfile tokens for 'layer4': edge_pool needs the name of a pool, at Caddyfile:5`},
		{"edge_pool with two pools", "{\n\tlayer4 {\n\t\t:443 {\n\t\t\troute {\n\t\t\t\tedge_pool a b\n\t\t\t}\n\t\t}\n\t}\n}\n", `parsing caddyfile tokens for 'layer4': edge_pool takes one name and no block, at Caddyfile:5`},
		{"edge_limit with an unknown option", "{\n\tlayer4 {\n\t\t:443 {\n\t\t\troute {\n\t\t\t\tedge_limit {\n\t\t\t\t\tper_ip 5\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n}\n", `parsing caddyfile tokens for 'layer4': "per_ip" is not known here: want one of allow, burst, deny, per_source, prefix_v4, prefix_v6, rate, table, total, total_burst, total_rate, at Caddyfile:6`},
		{"edge_proxy with a bad port", "http://a.example.com {\n\tedge_proxy home:http\n}\n", `parsing caddyfile tokens for 'edge_proxy': edge_proxy home:http: want <pool> or <pool>:<port>, at Caddyfile:2`},
		{"edge_proxy with upstreams", "http://a.example.com {\n\tedge_proxy home {\n\t\tto 192.0.2.1:80\n\t}\n}\n", `parsing caddyfile tokens for 'edge_proxy': edge_proxy has its upstreams from the pool, at Caddyfile:4`},
		{"dynamic edge_pool without a pool", "http://a.example.com {\n\treverse_proxy {\n\t\tdynamic edge_pool\n\t}\n}\n", `parsing caddyfile tokens for 'reverse_proxy': edge_pool needs the name of a pool, at Caddyfile:3`},
		{"dynamic edge_pool with an unknown option", "http://a.example.com {\n\treverse_proxy {\n\t\tdynamic edge_pool home {\n\t\t\tprt 80\n\t\t}\n\t}\n}\n", `parsing caddyfile tokens for 'reverse_proxy': "prt" is not known here: want one of port, at Caddyfile:4`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := adapt(c.caddyfile)
			if err == nil {
				t.Fatalf("it was taken, want %s", c.want)
			}
			if err.Error() != c.want {
				t.Errorf("\n got %s\nwant %s", err, c.want)
			}
		})
	}
}

// TestLoadErrors are mistakes that show only when the config loads.
func TestLoadErrors(t *testing.T) {
	roots := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(roots, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := func(dial, check string) string {
		return `{"apps":{"edge":{"gateways":{"a":{"dial":"` + dial + `"` + check + `}}}}}`
	}
	listener := func(rest string) string {
		return `{"apps":{"edge":{"gateways":{"a":{"dial":"192.0.2.1:443"}},"pools":{"home":{"members":[{"gateway":"a"}]}},"listeners":[` + rest + `]}}}`
	}
	cases := []struct{ name, config, want string }{
		{"undefined placeholder", gateway("{env.EDGE_NOT_SET}", ""), `gateway a: dial: evaluated placeholder {env.EDGE_NOT_SET} is empty`},
		{"placeholder with a bad value", gateway("{env.EDGE_BAD}", ""), `gateway a: dial "no address": want host:port`},
		{"unreadable roots", gateway("192.0.2.1:443", `,"check":{"kind":"tls","server_name":"a.example.com","roots_file":"/nowhere/ca.pem"}`), `gateway a: check roots: open /nowhere/ca.pem: no such file or directory`},
		{"roots without a certificate", gateway("192.0.2.1:443", `,"check":{"kind":"tls","server_name":"a.example.com","roots_file":"`+roots+`"}`), `gateway a: check: roots holds no certificate`},
		{"tls without a name", gateway("192.0.2.1:443", `,"check":{"kind":"tls"}`), `gateway a: check: server_name is empty: a tls check needs the name to ask for`},
		{"unknown key", gateway("192.0.2.1:443", `,"dail":"x"`), `loading edge app module: decoding module config: edge: json: unknown field "dail"`},
		{"gateway is null", `{"apps":{"edge":{"gateways":{"a":null}}}}`, `gateway a: it is empty`},
		{"pool is null", `{"apps":{"edge":{"pools":{"home":null}}}}`, `pool home: it is empty`},
		{"listener is null", `{"apps":{"edge":{"listeners":[null]}}}`, `a listener is empty`},
		{"unknown pool", listener(`{"listen":[":443"],"routes":[{"names":["example.com"],"pool":"away"}]}`), `listen :443: route example.com: pool away is not defined`},
		{"no route", listener(`{"listen":[":443"],"unmanaged":true}`), `listen :443: it has no route`},
		{"no address", listener(`{"routes":[{"pool":"home"}]}`), `listen : no address to listen on`},
		{"undefined placeholder in listen", listener(`{"listen":["{env.EDGE_NOT_SET}:443"],"routes":[{"pool":"home"}]}`), `listen {env.EDGE_NOT_SET}:443: evaluated placeholder {env.EDGE_NOT_SET} is empty`},
		{"hello too large", listener(`{"listen":[":443"],"routes":[{"names":["*"],"pool":"home"}],"hello_max_bytes":2000000}`), `listen :443: hello bytes is 2000000: want 1 to 1048576`},
		{"layer4 without the app", `{"apps":{"layer4":{"servers":{"a":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"edge_pool","pool":"home"}]}]}}}}}`, `loading layer4 app module: provision layer4: server 'a': route 0: position 0: loading module 'edge_pool': provision layer4.handlers.edge_pool: this needs the edge app (the edge global option): app module edge: module not configured`},
		{"layer4 with an unknown pool", `{"apps":{"edge":{},"layer4":{"servers":{"a":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"edge_pool","pool":"home"}]}]}}}}}`, `loading layer4 app module: provision layer4: server 'a': route 0: position 0: loading module 'edge_pool': provision layer4.handlers.edge_pool: edge_pool: pool "home" is not defined in the edge app`},
		{"edge_limit with a bad limit", `{"apps":{"edge":{},"layer4":{"servers":{"a":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"edge_limit","per_source":-1}]}]}}}}}`, `loading layer4 app module: provision layer4: server 'a': route 0: position 0: loading module 'edge_limit': provision layer4.handlers.edge_limit: edge_limit: per_source -1: must be from 0 to 2147483647`},
		{"edge_sni with a bad name", `{"apps":{"edge":{},"layer4":{"servers":{"a":{"listen":["127.0.0.1:0"],"routes":[{"match":[{"edge_sni":{"names":["a..b"]}}]}]}}}}}`, `loading layer4 app module: provision layer4: server 'a': route 0: loading matcher modules: module name 'edge_sni': provision layer4.matchers.edge_sni: name "a..b" (edge_sni): a label is empty`},
		{"edge_outage with an unknown pool", `{"apps":{"edge":{},"http":{"servers":{"a":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"edge_outage","pool":"home"}]}]}}}}}`, `loading http app module: provision http: server a: setting up route handlers: route 0: loading handler modules: position 0: loading module 'edge_outage': provision http.handlers.edge_outage: edge_outage: pool "home" is not defined in the edge app`},
	}
	t.Setenv("EDGE_BAD", "no address")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := validateJSON([]byte(c.config))
			if err == nil {
				t.Fatalf("it was taken, want %s", c.want)
			}
			got := strings.ReplaceAll(err.Error(), roots, "ROOTS")
			if !strings.HasSuffix(got, c.want) || c.want == "" {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}
