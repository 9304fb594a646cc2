package fallback

import "github.com/caddyserver/caddy/v2"

// Peer is where this home answers the others. Each home proves who it is with a
// certificate.
type Peer struct {
	// Where to listen. Default: :7443.
	Listen string `json:"listen,omitempty"`
	// A PEM file with this home's certificate, for the name edgeward://home/<id>.
	// Default: that of edge_cluster.
	Cert string `json:"cert,omitempty"`
	// A PEM file with its key.
	Key string `json:"key,omitempty"`
	// A PEM file with the authority that signed the certificates of all homes.
	CA string `json:"ca,omitempty"`
}

// Docker is where containers run.
type Docker struct {
	// The engine: unix:///<path> or tcp://<host>:<port>. Default: DOCKER_HOST, or else
	// unix:///var/run/docker.sock.
	Host string `json:"host,omitempty"`
	// A PEM file with the authority of the engine's certificate. It, cert and key go
	// together.
	CA string `json:"ca,omitempty"`
	// A PEM file with our certificate.
	Cert string `json:"cert,omitempty"`
	// A PEM file with its key.
	Key string `json:"key,omitempty"`
}

// Zone is a DNS zone at Cloudflare.
type Zone struct {
	// The zone's own name, like example.com. It may be left out if its id is given and
	// dns names it by that.
	Name string `json:"name,omitempty"`
	// Its id: 32 hexadecimal digits. Default: looked up by name, for which the token
	// needs the permission Zone Read as well.
	ID string `json:"id,omitempty"`
	// An API token with the permission DNS Edit on this zone. Better a placeholder
	// such as {file./etc/edgeward/cf_token} than the token itself, which would lie in
	// the config. Default: the file, or the credential.
	Token string `json:"token,omitempty"`
	// A file that holds the token.
	TokenFile string `json:"token_file,omitempty"`
	// The name of the systemd credential that holds the token (LoadCredential= in the
	// unit), if there is neither a token nor a file. Default: cf_token.
	Credential string `json:"credential,omitempty"`
	// Who is asked whether a change is visible: host names, or addresses with or
	// without a port. Default: the name servers that the API names.
	NameServers []string `json:"name_servers,omitempty"`
}

// Resolver is a DNS server that is asked over HTTPS.
type Resolver struct {
	// Where to ask, like https://dns.example.com/dns-query. The certificate must be
	// good for the host.
	URL string `json:"url"`
	// Where to connect: the address and port of that host, which is never looked up.
	Address string `json:"address"`
	// Take answers with private and loopback addresses. It is for tests on one
	// machine.
	AnyAddress bool `json:"any_address,omitempty"`
}

// Witness tests our own connection. Two servers that answer show that it works; it is
// gone if none of two or more does. Anything between changes nothing.
type Witness struct {
	// The servers: at least two, at different addresses. Default: the public resolvers
	// of Cloudflare, Google and Quad9.
	Targets []Target `json:"targets,omitempty"`
	// How long each may take. Default: 3s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// Target is a server that a witness tries to reach.
type Target struct {
	// The name that its certificate must be good for. Default: none; a connection is
	// enough, which a router that answers for everybody makes as well.
	Name string `json:"name,omitempty"`
	// Its address and port.
	Address string `json:"address"`
}

// Address says how this home finds where it is, for dns.
type Address struct {
	// Who is asked. Sources of at least two operators must agree, twice in a row.
	// Default: those of Cloudflare, ipify and Amazon.
	Sources []Source `json:"sources,omitempty"`
	// A network interface whose public IPv6 addresses count as a source.
	Interface string `json:"interface,omitempty"`
	// How many rounds in a row must give a new address before it is believed.
	// Default: 2.
	Confirm int `json:"confirm,omitempty"`
	// Look for no address: each home has fixed ones for all it covers.
	Off bool `json:"off,omitempty"`
}

// Source tells a visitor its own address, over HTTPS.
type Source struct {
	// Where to ask.
	URL string `json:"url"`
	// How it answers: "text", the address alone, or "trace", lines of which one is
	// ip=<address>. Default: text.
	Format string `json:"format,omitempty"`
	// Who runs it. Two sources of one operator count once. Default: the registered
	// domain of the URL.
	Operator string `json:"operator,omitempty"`
}

// Notify is a way to tell people.
type Notify struct {
	// Where to: a Discord or Slack webhook, any other https:// URL for a signed
	// webhook, smtp://, or a shoutrrr URL such as telegram://, ntfy:// or gotify://.
	// It holds a secret: better a placeholder.
	URL string `json:"url"`
	// What logs and statistics call it; messages that wait are for a name. Default:
	// the kind of the channel. Two channels of one kind need names.
	Name string `json:"name,omitempty"`
	// Signs the requests of a webhook, in X-Edge-Signature. Refused elsewhere.
	Secret string `json:"secret,omitempty"`
	// How long one attempt may take. Default: 15s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// Lease is the right to run a home's services, which only one home has at a time.
type Lease struct {
	// How long it lasts without a word from its holder. Default: 45s.
	TTL caddy.Duration `json:"ttl,omitempty"`
	// How long before its end a holder that cannot renew it stops what it runs: longer
	// than any item takes to stop. Default: 25s.
	Fence caddy.Duration `json:"fence,omitempty"`
	// How long a new holder waits before it writes DNS, if the one before has not
	// given the lease back: the longest that a write of that one may be on its way.
	// Default: 10s.
	Settle caddy.Duration `json:"settle,omitempty"`
}

// Policy is when a home covers another one, and when it hands back.
type Policy struct {
	// How often a home looks at the others and at its own connection. Default: 5s.
	Interval caddy.Duration `json:"interval,omitempty"`
	// How many looks in a row must be bad until a home is gone. Default: 3.
	Down int `json:"down,omitempty"`
	// How many must be good in a row until it is given back. Default: 5.
	Strikes int `json:"strikes,omitempty"`
	// A home that answers and is not healthy (its Docker is dead, say) gives its
	// services up, if another one is ready to cover it. Default: it keeps them.
	CoverUnhealthy bool `json:"cover_unhealthy,omitempty"`
	// How many looks in a row that takes. Default: 6.
	Unhealthy int `json:"unhealthy,omitempty"`
	// The right to run a home's services.
	Lease Lease `json:"lease,omitzero"`
	// How long each home in covered_by waits for the one before it. Default: 30s.
	Stagger caddy.Duration `json:"stagger,omitempty"`
	// How long a home that answers may be without its lease, as after a reboot, before
	// it is covered. Default: 2m.
	Grace caddy.Duration `json:"grace,omitempty"`
	// How long a home that covers must be gone until the home itself takes its
	// services back without being given them. Default: 10m.
	ReclaimAfter caddy.Duration `json:"reclaim_after,omitempty"`
	// How often a step of a handback may fail until all of it is rolled back.
	// Default: 3.
	Tries int `json:"tries,omitempty"`
	// The first pause after something failed; it doubles each time. Default: 5s.
	Retry caddy.Duration `json:"retry,omitempty"`
	// The longest of these pauses. Default: 5m.
	RetryMost caddy.Duration `json:"retry_most,omitempty"`
	// The pause after a handback that failed, doubled each time up to an hour.
	// Default: 5m.
	Pause caddy.Duration `json:"pause,omitempty"`
	// How long one small thing may take: a word to the store, to another home, to the
	// DNS provider. Default: 20s.
	Limit caddy.Duration `json:"limit,omitempty"`
	// How long one writeback may take. Default: 12h.
	CarryLimit caddy.Duration `json:"carry_limit,omitempty"`
}

// Home is one place that runs services.
type Home struct {
	// Its name among the homes: lower-case letters, digits and hyphens.
	ID string `json:"id"`
	// Where the other homes reach it: host:port of its peer listener.
	Peer string `json:"peer,omitempty"`
	// Ask it with ssh, by this name (user@host), in the place of peer: for those who
	// want that. Nothing can be carried to such a home.
	SSH string `json:"ssh,omitempty"`
	// The homes that cover it, best first. Default: nobody does.
	CoveredBy []string `json:"covered_by,omitempty"`
	// The names that lead visitors to it, of which the home that serves is the only
	// updater. Default: an item with dns does that, or nobody.
	DNS *DNS `json:"dns,omitempty"`
	// Without dns: the names that the item with dns keeps. It is believed when
	// resolvers show that all of them lead to the home that runs it. Default: it is
	// believed when it runs.
	Names []string `json:"names,omitempty"`
	// Directories that must be mount points here: without the disk, what is written would
	// go elsewhere. The home takes nothing back while one is not.
	Mounts []string `json:"mounts,omitempty"`
	// What runs at every home at all times. It is looked at, never touched.
	Warm []*Item `json:"warm,omitempty"`
	// What it runs for visitors.
	Tiers []*Tier `json:"tiers,omitempty"`

	at string // where it stands in the Caddyfile, while that is read
}

// DNS is the names of a home.
type DNS struct {
	// Whose A and AAAA records are written.
	Names []string `json:"names"`
	// The zone that they are in, by the name or id it has in zones. Default: the one
	// whose name they end in.
	Zone string `json:"zone,omitempty"`
	// What is published: "ipv4", "ipv6". Default: both.
	Families []string `json:"families,omitempty"`
	// Cloudflare stands in front.
	Proxied bool `json:"proxied,omitempty"`
	// Addresses that need not be found, by home.
	Fixed map[string][]string `json:"fixed,omitempty"`
}

// Tier is a group of items that are covered when an outage is that old.
type Tier struct {
	// Its number, from 1 on.
	Number int `json:"number"`
	// How long the outage must have lasted. Default: at once for tier 1, then 4h, 12h
	// and 24h. Negative: at once.
	After caddy.Duration `json:"after,omitempty"`
	// How long it must have lasted so that data is carried back. Default: as long as
	// after. Negative: never.
	WritebackAfter caddy.Duration `json:"writeback_after,omitempty"`
	// The most bytes a second of a writeback. Default: no limit.
	Bandwidth int64 `json:"bandwidth,omitempty"`
	// What it starts.
	Items []*Item `json:"items,omitempty"`
}

// Item is one thing that a home runs for visitors. All homes concerned have it under
// the same name.
type Item struct {
	// What it is: "container", "compose", "unit" or "command".
	Kind string `json:"kind"`
	// What it is called here. Unique in its home.
	Name string `json:"name"`
	// The container's name, or label=value of exactly one container; the compose
	// project; the systemd unit. Default: the item's name.
	Ref string `json:"ref,omitempty"`
	// Of a command: the program and its arguments that start it. No shell is involved.
	// It must come back.
	Start []string `json:"start,omitempty"`
	// Of a command: what stops it.
	Stop []string `json:"stop,omitempty"`
	// Of a command: what looks at it. Exit code 0: it runs and is well, 3: it is
	// stopped, anything else: unknown.
	Look []string `json:"look,omitempty"`
	// Items of the same or a lower tier that must be well first.
	After []string `json:"after,omitempty"`
	// Docker networks that must exist.
	Networks []string `json:"networks,omitempty"`
	// Docker volumes that must exist.
	Volumes []string `json:"volumes,omitempty"`
	// Directories that must exist and not be empty: a mount that is missing is an empty
	// directory.
	Paths []string `json:"paths,omitempty"`
	// How long it may take to be well. Default: 2m.
	Ready caddy.Duration `json:"ready,omitempty"`
	// How long it may take to stop before it is killed. Less than the lease's fence.
	// Default: 20s.
	StopWithin caddy.Duration `json:"stop_within,omitempty"`
	// What it writes, carried back when the cover ends.
	Data []*Data `json:"data,omitempty"`
	// If it cannot be started at the home that gets it back, the rest goes on. Default:
	// in tier 1, that rolls the handback back.
	Optional bool `json:"optional,omitempty"`
	// It is the updater of the home's names: started first, and put on last after a
	// handback. Only in tier 1, and only without dns in the home.
	DNS bool `json:"dns,omitempty"`
}

// Data is a directory that an item writes.
type Data struct {
	// Where it is.
	Path string `json:"path"`
	// Where it is at some other homes, by home. Default: at the same place.
	At map[string]string `json:"at,omitempty"`
	// A file whose modification time is when the data was last synced to this home.
	// Default: the directory itself.
	Stamp string `json:"stamp,omitempty"`
	// How old that may have been when the outage began; older data is not served until
	// somebody says go. Default: any age.
	MaxAge caddy.Duration `json:"max_age,omitempty"`
	// Your own sync keeps it equal both ways: it is not carried back.
	Union bool `json:"union,omitempty"`
	// Patterns, as rsync has them, of what is not carried.
	Exclude []string `json:"exclude,omitempty"`
}
