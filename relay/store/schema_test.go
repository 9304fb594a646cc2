package store_test

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// TestSchemaRefuses what must not be, whoever writes it. The rows that are there are
// those of small. Each statement breaks one rule; the message names the table or
// column of the rule, so that it is not another one that refuses.
func TestSchemaRefuses(t *testing.T) {
	hash := "x'" + strings.Repeat("ab", 32) + "'"
	tests := []struct{ name, sql, want string }{
		{"name of a gateway: upper case", "UPDATE gateway SET name = 'NUC'", "name"},
		{"name of a gateway: empty", "UPDATE gateway SET name = '' WHERE name = 'nuc'", "name"},
		{"name of a gateway: first letter", "UPDATE gateway SET name = '.nuc' WHERE name = 'nuc'", "name"},
		{"name of a gateway: star", "UPDATE gateway SET name = 'n*' WHERE name = 'nuc'", "name"},
		{"name of a gateway: long", "UPDATE gateway SET name = '" + strings.Repeat("a", 64) + "' WHERE name = 'nuc'", "name"},
		{"name of a gateway: NUL", "UPDATE gateway SET name = 'nuc' || char(0) || 'x' WHERE name = 'nuc'", "name"},
		{"name of a gateway: NULL", "UPDATE gateway SET name = NULL WHERE name = 'nuc'", "name"},
		{"name of a gateway: another's", "UPDATE gateway SET name = 'nuc' WHERE name = 'nas'", "name"},
		{"gateway: revision", "UPDATE gateway SET revision = 0", "revision"},
		{"gateway: dial", "UPDATE gateway SET dial = ''", "dial"},
		{"gateway: header", "UPDATE gateway SET proxy_protocol = 'v3'", "proxy_protocol"},
		{"gateway: port", "UPDATE gateway SET http_port = 65536", "http_port"},
		{"gateway: port, negative", "UPDATE gateway SET http_port = -1", "http_port"},
		{"gateway: type", "UPDATE gateway SET http_port = 'http'", "http_port"},
		{"gateway: check is no JSON", "UPDATE gateway SET active_check = '{'", "JSON"},
		{"gateway: check is no object", "UPDATE gateway SET active_check = '[]'", "active_check"},
		{"gateway: check without a kind", "UPDATE gateway SET active_check = '{}'", "active_check"},
		{"gateway: check of another kind", `UPDATE gateway SET active_check = '{"kind":"icmp"}'`, "active_check"},

		{"pool: policy", "UPDATE pool SET policy = 'random'", "policy"},
		{"pool: policy, NULL", "UPDATE pool SET policy = NULL", "policy"},
		{"pool: on_down", "UPDATE pool SET on_down = 'maybe'", "on_down"},
		{"pool: disabled", "UPDATE pool SET disabled = 2", "disabled"},
		{"pool: outage", "UPDATE pool SET outage = '\"sorry\"'", "outage"},
		{"pool: renamed away from its members", "UPDATE pool SET name = 'work'", "FOREIGN KEY"},
		{"pool: revision", "UPDATE pool SET revision = -1", "revision"},

		{"member: priority, zero", "UPDATE member SET priority = 0 WHERE gateway = 'nuc'", "priority"},
		{"member: priority, negative", "UPDATE member SET priority = -1 WHERE gateway = 'nuc'", "priority"},
		{"member: priority, beyond the most members", "UPDATE member SET priority = 65 WHERE gateway = 'nuc'", "priority"},
		{"member: priority, another's", "UPDATE member SET priority = 1", "member.priority"},
		{"member: twice", "INSERT INTO member VALUES ('home', 3, 'nuc', 1)", "member.gateway"},
		{"member: weight", "UPDATE member SET weight = 257", "weight"},
		{"member: weight, negative", "UPDATE member SET weight = -1", "weight"},
		{"member: of no pool", "INSERT INTO member VALUES ('work', 1, 'nuc', 1)", "FOREIGN KEY"},
		{"member: no name", "UPDATE member SET gateway = 'n c'", "gateway"},

		{"route: a pin and a pool", "UPDATE route SET gateway = 'nuc' WHERE name = 'site'", "gateway"},
		{"route: neither pin nor pool", "UPDATE route SET pool = NULL WHERE name = 'site'", "gateway"},
		{"route: empty pin beside a pool", "UPDATE route SET gateway = '' WHERE name = 'site'", "gateway"},
		{"route: kind", "UPDATE route SET kind = 'sctp' WHERE name = 'game'", "kind"},
		{"route: port too large", "UPDATE route SET port = 65536 WHERE name = 'game'", "port"},
		{"route: port missing", "UPDATE route SET port = 0 WHERE name = 'game'", "port"},
		{"route: port with tls", "UPDATE route SET port = 443 WHERE name = 'site'", "port"},
		{"route: listener with tcp", "UPDATE route SET listener = ':443' WHERE name = 'game'", "listener"},
		{"route: disabled", "UPDATE route SET disabled = -1", "disabled"},
		{"route: target without a port", "UPDATE route SET target_port = NULL WHERE name = 'game'", "target_host"},
		{"route: target without a host", "UPDATE route SET target_host = NULL WHERE name = 'game'", "target_host"},
		{"route: target with an empty host", "UPDATE route SET target_host = '' WHERE name = 'game'", "target_host"},
		{"route: target's port", "UPDATE route SET target_port = 0 WHERE name = 'game'", "target_port"},
		{"route: target's port, too large", "UPDATE route SET target_port = 65536 WHERE name = 'game'", "target_port"},
		{"route: TLS to no target", "UPDATE route SET target_tls = 1 WHERE name = 'site'", "target_host"},
		{"route: header to no target", "UPDATE route SET target_proxy_protocol = 'v2' WHERE name = 'site'", "target_host"},
		{"route: kind that has no names, with names", "UPDATE route SET kind = 'tcp', port = 443 WHERE name = 'site'", "FOREIGN KEY"},
		{"route: port of another", "INSERT INTO route SELECT 'game2', revision, kind, port, listener, gateway, pool, disabled, target_host, target_port, target_tls, target_insecure, target_proxy_protocol FROM route WHERE name = 'game'", "route.port"},
		{"route: name", "UPDATE route SET name = 'Game' WHERE name = 'game'", "name"},

		{"host: of tcp", "INSERT INTO host VALUES ('game', 1, 'tcp', 'example.com')", "kind"},
		{"host: of tcp that says it is tls", "INSERT INTO host VALUES ('game', 1, 'tls', 'example.com')", "FOREIGN KEY"},
		{"host: of no route", "INSERT INTO host VALUES ('none', 1, 'tls', 'example.com')", "FOREIGN KEY"},
		{"host: twice", "INSERT INTO host VALUES ('site', 3, 'tls', 'example.com')", "host.host"},
		{"host: position", "UPDATE host SET position = 1", "host.position"},
		{"host: empty", "UPDATE host SET host = '' WHERE position = 1", "host"},

		{"event: kind", "INSERT INTO event VALUES (1, 0, '', '', '', '', '', '', '')", "kind"},
		{"event: routes of none", "INSERT INTO event_route VALUES (77, 1, 'site')", "FOREIGN KEY"},

		{"code: hash", "INSERT INTO pairing_code VALUES (x'00', 'nuc', 1)", "hash"},
		{"code: hash as text", "INSERT INTO pairing_code VALUES ('" + strings.Repeat("a", 32) + "', 'nuc', 1)", "hash"},
		{"code: gateway", "INSERT INTO pairing_code VALUES (" + hash + ", '', 1)", "gateway"},
		{"token: hash", "INSERT INTO gateway_token VALUES ('nuc', x'00')", "hash"},
		{"token: of two", "INSERT INTO gateway_token VALUES ('nuc', " + hash + "), ('nas', " + hash + ")", "gateway_token.hash"},
		{"API token: name", "INSERT INTO api_token VALUES ('', " + hash + ", 'read', 1, NULL)", "name"},
		{"API token: scope", "INSERT INTO api_token VALUES ('ci', " + hash + ", 'admin', 1, NULL)", "scope"},
		{"API token: never good", "INSERT INTO api_token VALUES ('ci', " + hash + ", 'read', 2, 2)", "expires"},
		{"LAN: address", "INSERT INTO lan VALUES ('nuc', '')", "address"},
	}
	s, path := fresh(t)
	commit(t, s, empty(), small())
	tool := raw(t, path)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := sqlitex.ExecuteTransient(tool, tt.sql, nil)
			if err == nil {
				t.Fatalf("was done: %s", tt.sql)
			}
			refused := sqlite.ErrCode(err).ToPrimary() == sqlite.ResultConstraint || strings.Contains(err.Error(), "JSON")
			if !refused || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a constraint with %q in it", err, tt.want)
			}
			if d := diff(small(), load(t, s)); d != "" {
				t.Error("-want +got:\n", d)
			}
		})
	}
}

// TestSchemaAllows what looks much like it.
func TestSchemaAllows(t *testing.T) {
	s, path := fresh(t)
	commit(t, s, empty(), small())
	tool := raw(t, path)
	for _, sql := range []string{
		"UPDATE gateway SET name = '" + strings.Repeat("a", 63) + "' WHERE name = 'nuc'",
		"UPDATE gateway SET name = '0.-_' WHERE name = 'nuc'",
		"UPDATE route SET name = 'a.*.b' WHERE name = 'game'",
		"UPDATE route SET pool = NULL, gateway = 'nuc' WHERE name = 'site'",
		"UPDATE route SET target_host = NULL, target_port = NULL WHERE name = 'game'",
		"UPDATE route SET port = 65535 WHERE name = 'game'",
		"UPDATE route SET gateway = 'of-the-file' WHERE name = 'game'",
		"UPDATE member SET priority = 64, weight = 256 WHERE gateway = 'nuc'",
		"INSERT INTO route SELECT 'game2', revision, 'udp', port, listener, gateway, pool, disabled, target_host, target_port, target_tls, target_insecure, target_proxy_protocol FROM route WHERE name = 'game'",
		"INSERT INTO route SELECT 'game2', revision, kind, port, listener, gateway, pool, 1, target_host, target_port, target_tls, target_insecure, target_proxy_protocol FROM route WHERE name = 'game'",
		"DELETE FROM pool",
	} {
		must(t, tool, "BEGIN")
		must(t, tool, sql)
		must(t, tool, "ROLLBACK")
	}
}
