package render

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/limit"
)

var (
	pathForm    = regexp.MustCompile(`\A(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+\z`)
	accountForm = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_-]{0,31}\z`)
	modeForm    = regexp.MustCompile(`\A0?[0-7]{3}\z`)
	facilities  = []string{
		"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "auth2", "ftp", "ntp", "audit", "alert", "cron2",
		"local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
	}
)

// maxSocketPath leaves room for what HAProxy appends while it binds: sun_path has
// 108 bytes, unix(7).
const maxSocketPath = 90

// problems collects what is wrong with settings.
type problems []error

func (p *problems) add(setting, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", setting, fmt.Sprintf(format, args...)))
}

// validate reports all that cannot be rendered, each with its setting. Defaults are
// in place.
func (c Config) validate() error {
	var bad problems
	if c.Catalog == nil {
		return errors.New("there is no catalog")
	}
	switch c.Health {
	case ByHAProxy, BySidecar:
	case ByAgent:
		if a := c.Agent; !a.Address.IsValid() || a.Address.Addr().Zone() != "" || a.Interval <= 0 {
			bad.add("agent_check", "health \"agent\" needs the address of who answers, and an interval")
		}
	default:
		bad.add("health", "%.40q: want haproxy, sidecar or agent", c.Health)
	}
	c.Process.validate(&bad)
	seen := map[string]bool{}
	for i, l := range c.Listeners {
		at := fmt.Sprintf("listeners[%d]", i)
		if seen[l.Address] {
			bad.add(at+".address", "%s is there twice", l.Address)
		}
		seen[l.Address] = true
		l.validate(&bad, at)
	}
	if c.Ports.Host != "" {
		if a, err := netip.ParseAddr(c.Ports.Host); err != nil || a.Zone() != "" {
			bad.add("ports.host", "%.60q: want an IP address", c.Ports.Host)
		}
	}
	c.Ports.Limits.validate(&bad, "ports.limits")
	return errors.Join(bad...)
}

func (l Listener) validate(bad *problems, at string) {
	if _, err := parseBind(l.Address); err != nil {
		bad.add(at+".address", "%v", err)
	}
	if l.HelloBytes < 512 || l.HelloBytes > maxHelloBytes {
		bad.add(at+".hello_bytes", "%d: want 512 to %d", l.HelloBytes, maxHelloBytes)
	}
	if d := time.Duration(l.HelloTime); d < time.Millisecond || d > time.Hour {
		bad.add(at+".hello_time", "%s: want 1ms to 1h", l.HelloTime)
	}
	for _, p := range l.TrustedProxies {
		if !p.IsValid() {
			bad.add(at+".trusted_proxies", "%v is not a prefix", p)
		}
	}
	l.Limits.validate(bad, at+".limits")
}

func (l Limits) validate(bad *problems, at string) {
	if err := l.settings().Validate(); err != nil {
		bad.add(at, "%v", err)
		return
	}
	if l.Total > maxConn {
		bad.add(at+".total", "%d: want at most %d", l.Total, maxConn)
	}
	if l.TotalRate > 0 && (l.TotalRate < 1 || l.TotalRate > math.MaxInt32) {
		bad.add(at+".total_rate", "%v: HAProxy counts whole connections per second, want 1 or more", l.TotalRate)
	}
	if l.Wait && l.Total == 0 {
		bad.add(at+".wait", "means nothing without total")
	}
	if l.Rate > 0 {
		if window, _ := l.window(); window < time.Millisecond || window > maxDuration {
			bad.add(at+".rate", "%v with burst %d is counted over %s: want 1ms to %s; change burst", l.Rate, l.Burst, window, maxDuration)
		}
	}
}

// window returns over what time connections of a source are counted, and how many
// there may be.
func (l Limits) window() (time.Duration, int) {
	burst := l.Burst
	if burst == 0 {
		burst = int(min(max(1, math.Ceil(2*l.Rate)), math.MaxInt32))
	}
	seconds := float64(burst) / l.Rate
	if seconds > (2 * maxDuration).Seconds() {
		return 2 * maxDuration, burst
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond), burst
}

func (p Process) validate(bad *problems) {
	paths := [][2]string{{"files", p.Files}, {"state_file", p.StateFile}, {"socket.path", p.Socket.Path}}
	if p.Chroot != "" {
		paths = append(paths, [2]string{"chroot", p.Chroot})
	}
	for _, path := range paths {
		if !pathForm.MatchString(path[1]) || len(path[1]) > 200 {
			bad.add("process."+path[0], "%.80q: want an absolute path of letters, digits and . _ + -", path[1])
		}
	}
	if len(p.Socket.Path) > maxSocketPath {
		bad.add("process.socket.path", "has %d bytes: want at most %d", len(p.Socket.Path), maxSocketPath)
	}
	for _, account := range [][2]string{{"user", p.User}, {"group", p.Group}, {"socket.user", p.Socket.User}, {"socket.group", p.Socket.Group}} {
		if account[1] != "" && !accountForm.MatchString(account[1]) {
			bad.add("process."+account[0], "%.40q is not the name of an account", account[1])
		}
	}
	if !modeForm.MatchString(p.Socket.Mode) {
		bad.add("process.socket.mode", "%.20q: want an octal mode like 600", p.Socket.Mode)
	} else if p.Socket.Mode[len(p.Socket.Mode)-1] != '0' {
		bad.add("process.socket.mode", "%s lets everybody in: want the last digit 0", p.Socket.Mode)
	}
	if !slices.Contains(facilities, p.Facility) {
		bad.add("process.facility", "%.40q: want one of syslog's, like local0", p.Facility)
	}
	if !logTarget(p.Log) {
		bad.add("process.log", "%.80q: want a socket's path, an address with a port, stdout, or off", p.Log)
	}
	if p.MaxConn < 0 || p.MaxConn > maxConn {
		bad.add("process.max_conn", "%d: want 0 to %d", p.MaxConn, maxConn)
	}
	if p.BufSize < 8192 || p.BufSize > 2*maxHelloBytes {
		bad.add("process.buf_size", "%d: want 8192 to %d", p.BufSize, 2*maxHelloBytes)
	}
	if p.Drain > 0 && (time.Duration(p.Drain) < time.Second || time.Duration(p.Drain) > maxDuration) {
		bad.add("process.drain", "%s: want 1s to %s, or off", p.Drain, maxDuration)
	}
	for _, r := range p.Resolvers {
		if !r.IsValid() || r.Port() == 0 || r.Addr().Zone() != "" {
			bad.add("process.resolvers", "%v: want an address with a port", r)
		}
	}
}

func logTarget(s string) bool {
	if s == "off" || s == "stdout" || pathForm.MatchString(s) {
		return true
	}
	a, err := netip.ParseAddrPort(s)
	return err == nil && a.Addr().Zone() == "" && a.Port() != 0
}

// bind is where to listen.
type bind struct {
	addr netip.Addr // invalid: all of both families
	port uint16
}

func parseBind(address string) (b bind, err error) {
	i := strings.LastIndexByte(address, ':')
	if i < 0 {
		return b, fmt.Errorf("%.80q: want host:port", address)
	}
	port, err := strconv.ParseUint(address[i+1:], 10, 16)
	if err != nil || port == 0 || address[i+1] == '+' {
		return b, fmt.Errorf("%.80q: want a port from 1 to 65535", address)
	}
	b.port = uint16(port)
	if i == 0 {
		return b, nil
	}
	host := address[:i]
	if inside, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inside, "]"); !ok {
			return b, fmt.Errorf("%.80q: a bracket is not closed", address)
		}
	}
	if b.addr, err = netip.ParseAddr(host); err != nil || b.addr.Zone() != "" {
		return b, fmt.Errorf("%.80q: want an IP address, or none for all", address)
	}
	b.addr = b.addr.Unmap()
	return b, nil
}

// String returns what a bind line holds.
func (b bind) String() string {
	switch {
	case !b.addr.IsValid(), b.addr == netip.IPv6Unspecified():
		return fmt.Sprintf(":::%d v4v6", b.port)
	case b.addr.Is6():
		return fmt.Sprintf("[%s]:%d", b.addr, b.port)
	}
	return fmt.Sprintf("%s:%d", b.addr, b.port)
}

// prefixes of sources that a table of limits counts as one.
func (l Limits) prefixes() (v4, v6 int) {
	v4, v6 = limit.DefaultPrefixV4, limit.DefaultPrefixV6
	if l.PrefixV4 != 0 {
		v4 = l.PrefixV4
	}
	if l.PrefixV6 != 0 {
		v6 = l.PrefixV6
	}
	return v4, v6
}

// unsupported refuses routes that HAProxy cannot carry here.
func unsupported(c *catalog.Catalog) error {
	var bad problems
	for _, r := range sortedRoutes(c) {
		switch {
		case r.Disabled:
		case r.Kind == catalog.UDP:
			bad.add("route "+r.Name, `HAProxy carries no UDP: disable the route, or set leave_out ["udp"]`)
		case r.Kind == catalog.HTTP:
			bad.add("route "+r.Name, `http routes need the relay to hold a certificate, and this config holds no key: make it a tls route, disable it, or set leave_out ["http"]`)
		}
	}
	return errors.Join(bad...)
}
