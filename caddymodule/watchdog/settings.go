package watchdog

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/watchdog/semantic"
)

// Zone is a DNS zone at Cloudflare.
type Zone struct {
	// The zone's own name, like example.com. It may be left out if there is one
	// zone only and its id is given.
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
	// without a port. Default: the name servers that the API names, for which the
	// token needs the permission Zone Read; without it nobody is asked.
	NameServers []string `json:"name_servers,omitempty"`
}

// Home says where the home is, for paths with origin. Its address is either read from
// a record that somebody else keeps, or found.
type Home struct {
	// A DNS-only name that a router or a dynamic DNS client keeps at the home's
	// address. It is read and never written.
	Record string `json:"record,omitempty"`
	// Find the address: sources of at least two operators must agree, twice in a row.
	Find bool `json:"find,omitempty"`
	// The sources. Default: those of Cloudflare, ipify and Amazon.
	Sources []Source `json:"sources,omitempty"`
	// A network interface whose public IPv6 addresses count as a source.
	Interface string `json:"interface,omitempty"`
	// Names that are kept at the address that was found, DNS-only. The watchdog is
	// their only writer. Only with find.
	Names []string `json:"names,omitempty"`
	// How often to look: at least 5s. Default: 30s.
	Every caddy.Duration `json:"every,omitempty"`
	// How many rounds in a row must give a new address before it is believed.
	// Default: 2.
	Confirm int `json:"confirm,omitempty"`
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

// Resolver is a DNS server that is asked over HTTPS.
type Resolver struct {
	// Where to ask, like https://dns.example.com/dns-query. The certificate must be
	// good for the host.
	URL string `json:"url"`
	// Where to connect: the address and port of that host, which is never looked up.
	Address string `json:"address"`
	// Take answers with private and loopback addresses. It is for tests on one
	// machine: with it the resolver can point probes at the local network.
	AnyAddress bool `json:"any_address,omitempty"`
}

// Witness tests our own connection: several independent servers must show a valid
// certificate. While too few do, nothing is known of any path, and nothing is moved.
type Witness struct {
	// No witness: a dead uplink then looks like dead paths.
	Off bool `json:"off,omitempty"`
	// The servers. Default: the public resolvers of Cloudflare, Google and Quad9.
	Targets []Target `json:"targets,omitempty"`
	// How many must answer. Default: 2.
	Need int `json:"need,omitempty"`
	// How long all of them together may take. Default: 3s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// Target is a server that a witness tries to reach.
type Target struct {
	// The name that its certificate must be good for.
	Name string `json:"name"`
	// Its address and port.
	Address string `json:"address"`
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

// DeadMan is a service outside that raises an alarm when it is not pinged any more.
type DeadMan struct {
	// The ping URL of a check at Healthchecks, or of a service that speaks the same.
	URL string `json:"url"`
	// How often to ping. Default: 60s.
	Every caddy.Duration `json:"every,omitempty"`
}

// Site is names that move together.
type Site struct {
	// What status, log and notices call it. Default: the first of the names.
	Name string `json:"name,omitempty"`
	// The DNS names whose A and AAAA records are moved: up to 100, all in one zone.
	// *.example.com is one of them.
	Names []string `json:"names"`
	// What is asked on each path, and the right answer.
	Health *Health `json:"health"`
	// The site inside the home. Paths that lead home are written only while it
	// answers. Default: it is not probed.
	Local *Local `json:"local,omitempty"`
	// The ways visitors take, in order of preference. At least two.
	Paths []*Path `json:"paths"`
	// Let a name that has no record at all get one. Default: it is left alone.
	Create bool `json:"create,omitempty"`
	// How long a probe may take, from the first packet to the last byte: 100ms to
	// 15s. A canary has 25s. Default: 2s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// How long the serving path may take to answer before it is suspicious. It is
	// never less than three times what is usual. Default: 200ms. Negative: only
	// failures are suspicious.
	Slow caddy.Duration `json:"slow,omitempty"`
	Policy
}

// Policy is how a site is judged. What is not set comes from the preset.
type Policy struct {
	// The settings to begin with: "fast" leaves a dead path within ten seconds,
	// "careful" after a minute. Default: that of the app, or fast.
	Preset string `json:"preset,omitempty"`
	// How often the serving path is probed when all is well. At least 100ms. Fast: 3s.
	// Careful: 15s.
	Interval caddy.Duration `json:"interval,omitempty"`
	// How often everything else is. At least the interval. Fast: 30s, or the interval
	// if that is longer. Careful: 15s.
	StandbyInterval caddy.Duration `json:"standby_interval,omitempty"`
	// How far apart probes of a suspicious path begin; they overlap. Fast: 250ms.
	// Careful: no burst. Negative: no burst, the interval goes on.
	Burst caddy.Duration `json:"burst,omitempty"`
	// How long a burst may last; then trouble is watched at the interval. Default: 1m.
	BurstFor caddy.Duration `json:"burst_for,omitempty"`
	// So many failures among the last window probes make a path failed, if the last
	// one was among them. At least 2. Fast: 8. Careful: 4.
	Failures int `json:"failures,omitempty"`
	// So many probes are looked at, up to 32. Default: as many as failures, that is
	// all in a row; 12 if neither is set. Careful: 4.
	Window int `json:"window,omitempty"`
	// How many failures among them do not break continuous health. Fast: 3. Careful:
	// none. Negative: none.
	Tolerance int `json:"tolerance,omitempty"`
	// How long ago a good probe may have begun to justify a write. At least half of
	// the interval. Fast: 5s. Careful: 14s.
	Proof caddy.Duration `json:"proof,omitempty"`
	// How long a better path must be healthy before the way back. Fast: 2m. Careful:
	// 5m. Negative: one good probe.
	Recovery caddy.Duration `json:"recovery,omitempty"`
	// The least time between a move and the move back. Leaving a dead path does not
	// ask for it. Fast: 5m. Careful: 10m. Negative: none.
	Dwell caddy.Duration `json:"dwell,omitempty"`
	// So many moves within an hour close the way back. Leaving a dead path does not
	// ask for it. Default: 6. Negative: no limit.
	Budget int `json:"budget,omitempty"`
	// A pause of the probes after which what was counted is forgotten. Default: twice
	// the longer of interval and standby_interval.
	Gap caddy.Duration `json:"gap,omitempty"`
	// In a total outage, take the AAAA records out, so that visitors do not wait for
	// both families. They come back with the path. Default: they stay.
	WithdrawAAAA bool `json:"withdraw_aaaa,omitempty"`
}

// Local is the site inside the home.
type Local struct {
	// Its address and port.
	Address string `json:"address"`
	// Goes out with this probe alone, in X-Edge-Origin-Auth. Default: the file, or
	// the credential, or no such header.
	Secret string `json:"secret,omitempty"`
	// A file that holds the secret.
	SecretFile string `json:"secret_file,omitempty"`
	// The name of the systemd credential that holds the secret.
	Credential string `json:"credential,omitempty"`
}

// Health is a question over HTTPS, and the right answer.
type Health struct {
	// The server name: in the SNI, in the Host header and in the certificate.
	Host string `json:"host"`
	// The path of the URL, without a query; a random one is added. Default: /.
	Path string `json:"path,omitempty"`
	// The status. Default: 200.
	Status int `json:"status,omitempty"`
	// The body, byte for byte, up to 4096. Default: any. Placeholders are not
	// replaced here.
	Body *string `json:"body,omitempty"`
	// Take an answer without Cache-Control: no-store, which may have come out of a
	// cache. Default: it is bad.
	AllowStore bool `json:"allow_store,omitempty"`
	// What the answer's X-Edge-Node header must say. Default: anything.
	Node string `json:"node,omitempty"`
	// What the ClientHello looks like: "ordinary", "post_quantum", which does not fit
	// one segment, as that of browsers, or "split", which comes in four segments.
	// Default: ordinary.
	Shape string `json:"shape,omitempty"`
	// What the body must say, as JSON.
	Rules []semantic.Rule `json:"rules,omitempty"`
	// A JSON file with more rules, in an array.
	RulesFile string `json:"rules_file,omitempty"`
}

// Path is one way visitors reach a site.
type Path struct {
	// What it is called everywhere.
	Name string `json:"name"`
	// What the A records hold while the site is on this path. One of the two may be
	// left out.
	A string `json:"a,omitempty"`
	// What the AAAA records hold. Without it they are removed.
	AAAA string `json:"aaaa,omitempty"`
	// Cloudflare stands in front. It needs a canary.
	Proxied bool `json:"proxied,omitempty"`
	// Of records that are not proxied, in seconds: 60 to 86400, or from 30 on with an
	// Enterprise plan. Default: 60.
	TTL int `json:"ttl,omitempty"`
	// A name that is always on this path: it is looked up through the resolvers and
	// probed where they say, and the answer must have come through Cloudflare.
	Canary string `json:"canary,omitempty"`
	// The path leads to the home itself: a and aaaa are its addresses, and follow them,
	// and so does the canary. Needs home.
	Origin bool `json:"origin,omitempty"`
	// The path does not lead home: it may be taken while the home is down. Default:
	// it does.
	Away bool `json:"away,omitempty"`
	// Where the path is probed, as address and port. Default: port 443 of a. With a
	// probe address elsewhere, a and aaaa need not be public.
	Probe string `json:"probe,omitempty"`
	// Where it is probed over IPv6. Default: port 443 of aaaa.
	Probe6 string `json:"probe6,omitempty"`
	// What is asked on this path. Default: the site's.
	Health *Health `json:"health,omitempty"`
}
