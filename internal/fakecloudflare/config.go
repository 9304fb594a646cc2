package fakecloudflare

import (
	"cmp"
	"crypto/x509"
	"net/netip"
	"time"
)

// Config of a Server. The zero value works: no zone, the token "fake-token".
type Config struct {
	// The token for all zones that have none of their own. Default: fake-token.
	Token string
	// The zones at the start.
	Zones []Zone
	// Requests in Window before the API answers 429 until the window has passed
	// once more. Default: 1200 in 5m. A negative Limit switches it off.
	Limit  int
	Window time.Duration
	// What DNS answers for proxied names. Default: 104.16.0.1 and 2606:4700::1.
	EdgeA, EdgeAAAA netip.Addr
	// How many public resolvers to start. Default: 2. Negative: none.
	Resolvers int
	// Where to listen. Default: 127.0.0.1. Ports are free ones.
	Listen netip.Addr
	// Who signs the certificates of the edge and of the resolvers. Default: one of
	// its own, see Server.CA.
	CA *CA
	// Whom the edge trusts to sign the certificates of origins. Default: the CA.
	OriginRoots *x509.CertPool
	// Whether the edge takes any certificate from an origin ("Full" instead of
	// "Full (strict)").
	AnyOriginCertificate bool
	// How long the edge waits for an origin to accept, and to answer. Default:
	// 19s and 120s, as documented.
	ConnectTimeout, AnswerTimeout time.Duration
	// How many requests the log keeps. Default: 10000.
	LogLimit int
}

func (c Config) withDefaults() Config {
	c.Token = cmp.Or(c.Token, "fake-token")
	c.Limit = cmp.Or(c.Limit, 1200)
	c.Window = cmp.Or(c.Window, 5*time.Minute)
	c.EdgeA = cmp.Or(c.EdgeA, netip.MustParseAddr("104.16.0.1"))
	c.EdgeAAAA = cmp.Or(c.EdgeAAAA, netip.MustParseAddr("2606:4700::1"))
	c.Resolvers = cmp.Or(c.Resolvers, 2)
	c.Listen = cmp.Or(c.Listen, netip.MustParseAddr("127.0.0.1"))
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 19*time.Second)
	c.AnswerTimeout = cmp.Or(c.AnswerTimeout, 120*time.Second)
	c.LogLimit = cmp.Or(c.LogLimit, 10000)
	return c
}

// Zone is one zone of the account.
type Zone struct {
	Name string
	// 32 hexadecimal digits. Default: derived from the name.
	ID string
	// A token for this zone, which then takes no other. Default: Config.Token.
	Token string
	// Default: two names under ns.cloudflare.com.
	NameServers []string
	Records     []Record
}

// Record is a DNS record in the form of the API.
type Record struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Type       string    `json:"type"`
	Content    string    `json:"content"`
	Proxiable  bool      `json:"proxiable"`
	Proxied    bool      `json:"proxied"`
	TTL        int       `json:"ttl"`
	Priority   *int      `json:"priority,omitempty"`
	Settings   Settings  `json:"settings"`
	Meta       struct{}  `json:"meta"`
	Comment    *string   `json:"comment"` // null when unset
	Tags       []string  `json:"tags"`
	CreatedOn  time.Time `json:"created_on"`
	ModifiedOn time.Time `json:"modified_on"`
}

// Settings of a record.
type Settings struct {
	IPv4Only bool `json:"ipv4_only,omitempty"`
	IPv6Only bool `json:"ipv6_only,omitempty"`
}
