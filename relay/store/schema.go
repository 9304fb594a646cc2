package store

// migrations lead from an empty file to the present schema, one version each.
// Those that were released are never changed; add one at the end.
//
// A gateway or a pool that something refers to may be declared in the Caddyfile,
// where the database cannot look: such names are no foreign keys.
var migrations = []string{
	catalogSchema,
	eventSchema,
	accessSchema,
}

// applicationID marks the file as ours: "EDGW".
const applicationID = 0x45444757

// nameRule is what relay/catalog takes as a name, for the column of that name. GLOB
// stops at a NUL; the lengths see one, and what is not ASCII.
func nameRule(column, extra string) string {
	return `CHECK (length(` + column + `) BETWEEN 1 AND 63 AND octet_length(` + column + `) = length(` + column + `)
		AND ` + column + ` GLOB '[a-z0-9` + extra + `]*' AND ` + column + ` NOT GLOB '*[^a-z0-9._` + extra + `-]*')`
}

// plain is for columns with the name of a gateway or a pool.
func plain(column string) string { return nameRule(column, "") }

// starred is for columns with the name of a route.
func starred(column string) string { return nameRule(column, "*") }

// Durations are nanoseconds, negative for off. Members and hosts stand in tables
// of their own, because their order and their being different are rules. A check
// and an outage page are JSON: nothing refers to a part of them.
var catalogSchema = `
CREATE TABLE gateway (
	name TEXT PRIMARY KEY ` + plain("name") + `,
	revision INTEGER NOT NULL CHECK (revision >= 1),
	dial TEXT NOT NULL CHECK (dial <> ''),
	proxy_protocol TEXT NOT NULL CHECK (proxy_protocol IN ('', 'v1', 'v2')),
	http_port INTEGER NOT NULL CHECK (http_port BETWEEN 0 AND 65535),
	active_check TEXT CHECK (active_check IS NULL OR json_type(active_check) = 'object'
		AND coalesce(json_extract(active_check, '$.kind'), '') IN ('tcp', 'tls', 'https', 'off'))
) STRICT, WITHOUT ROWID;

CREATE TABLE pool (
	name TEXT PRIMARY KEY ` + plain("name") + `,
	revision INTEGER NOT NULL CHECK (revision >= 1),
	policy TEXT NOT NULL CHECK (policy IN ('failover', 'round_robin', 'least_conn', 'ip_hash')),
	failback TEXT NOT NULL,
	disabled INTEGER NOT NULL CHECK (disabled IN (0, 1)),
	slow_start INTEGER NOT NULL,
	on_down TEXT NOT NULL CHECK (on_down IN ('keep', 'close')),
	dial_timeout INTEGER NOT NULL,
	hedge INTEGER NOT NULL,
	first_byte INTEGER NOT NULL,
	total_timeout INTEGER NOT NULL,
	idle INTEGER NOT NULL,
	linger INTEGER NOT NULL,
	outage TEXT CHECK (json_type(outage) = 'object'),
	return_after INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE member (
	pool TEXT NOT NULL REFERENCES pool (name) ON DELETE CASCADE,
	priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 64),
	gateway TEXT NOT NULL ` + plain("gateway") + `,
	weight INTEGER NOT NULL CHECK (weight BETWEEN 0 AND 256),
	PRIMARY KEY (pool, priority),
	UNIQUE (pool, gateway)
) STRICT, WITHOUT ROWID;

CREATE TABLE route (
	name TEXT PRIMARY KEY ` + starred("name") + `,
	revision INTEGER NOT NULL CHECK (revision >= 1),
	kind TEXT NOT NULL CHECK (kind IN ('tls', 'tcp', 'udp', 'http')),
	port INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535 AND (kind IN ('tcp', 'udp')) = (port > 0)),
	listener TEXT NOT NULL CHECK (listener = '' OR kind = 'tls'),
	gateway TEXT ` + plain("gateway") + `,
	pool TEXT ` + plain("pool") + `,
	disabled INTEGER NOT NULL CHECK (disabled IN (0, 1)),
	target_host TEXT CHECK (target_host <> ''),
	target_port INTEGER CHECK (target_port BETWEEN 1 AND 65535),
	target_tls INTEGER NOT NULL CHECK (target_tls IN (0, 1)),
	target_insecure INTEGER NOT NULL CHECK (target_insecure IN (0, 1)),
	target_proxy_protocol TEXT NOT NULL CHECK (target_proxy_protocol IN ('', 'v1', 'v2')),
	UNIQUE (name, kind),
	CHECK ((gateway IS NULL) <> (pool IS NULL)),
	CHECK ((target_host IS NULL) = (target_port IS NULL)),
	CHECK (target_host IS NOT NULL OR (target_tls = 0 AND target_insecure = 0 AND target_proxy_protocol = ''))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX route_port ON route (kind, port) WHERE port > 0 AND disabled = 0;

CREATE TABLE host (
	route TEXT NOT NULL,
	position INTEGER NOT NULL CHECK (position >= 1),
	kind TEXT NOT NULL CHECK (kind IN ('tls', 'http')),
	host TEXT NOT NULL CHECK (host <> ''),
	PRIMARY KEY (route, position),
	UNIQUE (route, host),
	FOREIGN KEY (route, kind) REFERENCES route (name, kind) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
`

// Times are nanoseconds since 1970. Ids are never given twice, also not after the
// newest events were pruned.
const eventSchema = `
CREATE TABLE event (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	at INTEGER NOT NULL,
	kind TEXT NOT NULL CHECK (kind <> ''),
	actor TEXT NOT NULL,
	gateway TEXT NOT NULL,
	pool TEXT NOT NULL,
	was TEXT NOT NULL,
	became TEXT NOT NULL,
	reason TEXT NOT NULL
) STRICT;
CREATE INDEX event_at ON event (at);
CREATE INDEX event_kind ON event (kind);
CREATE INDEX event_gateway ON event (gateway) WHERE gateway <> '';
CREATE INDEX event_pool ON event (pool) WHERE pool <> '';

CREATE TABLE event_route (
	event INTEGER NOT NULL REFERENCES event (id) ON DELETE CASCADE,
	position INTEGER NOT NULL CHECK (position >= 1),
	route TEXT NOT NULL,
	PRIMARY KEY (event, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_route_route ON event_route (route, event);
`

// Secrets are kept as their SHA-256 only. A gateway here may be one of the file.
var accessSchema = `
CREATE TABLE pairing_code (
	hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
	gateway TEXT NOT NULL ` + plain("gateway") + `,
	expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pairing_code_expires ON pairing_code (expires);

CREATE TABLE gateway_token (
	gateway TEXT PRIMARY KEY ` + plain("gateway") + `,
	hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_token (
	name TEXT PRIMARY KEY CHECK (name <> '' AND octet_length(name) <= 255),
	hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
	scope TEXT NOT NULL CHECK (scope IN ('read', 'write')),
	created INTEGER NOT NULL,
	expires INTEGER CHECK (expires > created)
) STRICT, WITHOUT ROWID;

CREATE TABLE lan (
	gateway TEXT PRIMARY KEY ` + plain("gateway") + `,
	address TEXT NOT NULL CHECK (address <> '')
) STRICT, WITHOUT ROWID;
`
