package conformance_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/render"
)

// scene is a world of its own: its names do not clash with those of other scenes.
type scene struct {
	name     string
	gateways []gateway
	pools    []catalog.Pool
	// routes lead from all listeners of the scene, or from the one they name. A
	// route without a name gets one.
	routes []catalog.Route
	// listeners are called by a word; the rig finds them an address. Default: one
	// that has two minutes for a ClientHello, so that what ends before a test has
	// run out of patience has ended at once.
	listeners []listener
	// inTurn lets the rows come one after the other: they share a limit.
	inTurn bool
	rows   []row
}

// gateway is a server at home, and what is known of it.
type gateway struct {
	name  string
	known known
	fault fault
	proxy string // the PROXY header it wants: v1, v2
	v6    bool   // it is at ::1
}

// known is what the snapshot says of a gateway.
type known string

// What is known. Default: alive.
const (
	alive     known = ""
	down      known = "down"
	unknown   known = "unknown"
	cooldown  known = "cooldown"
	drained   known = "drain"
	disabled  known = "disable"
	heldAlive known = "held alive" // and down by all accounts
	heldDown  known = "held down"  // and alive by all accounts
)

// fault is what is wrong with a gateway that nobody knows of yet.
type fault string

// The faults. Default: none.
const (
	refuses fault = "refuses" // its port is closed
	full    fault = "full"    // its queue is full: a dial is not answered
	silent  fault = "silent"  // it accepts, reads and says nothing
	slams   fault = "slams"   // it closes what it has accepted
	resets  fault = "resets"  // it resets once it has the ClientHello
	cuts    fault = "cuts"    // it resets what it has answered
	stays   fault = "stays"   // it does not end its side of a connection
	// distrusted has a certificate that nobody trusts but the visitors. Its check
	// looks at that; those of others only connect.
	distrusted fault = "distrusted"
)

// listener is one of the scene, by a word in Address.
type listener struct {
	render.Listener
	v6   bool
	both bool // it takes IPv4 and IPv6
	// alert has the relay answer unknown names with an alert. HAProxy has no such
	// setting.
	alert bool
}

// Times that a ClientHello has. A test is out of patience before long has passed.
const (
	long  = catalog.Duration(2 * time.Minute)
	brief = catalog.Duration(time.Second)
)

// row is somebody who comes, and what becomes of him.
type row struct {
	name string
	visitor
	// at is the listener. Default: the first of the scene.
	at string
	// six comes by IPv6 to a listener of both families.
	six bool
	// port comes to the tcp route of that port instead.
	port int
	// crowd is how many of him come, one after the other.
	crowd int
	// stay keeps the crowd's connections open until the scene is over.
	stay bool
	// leave lets those who stay leave before the row, and the visitor come again and
	// again until he meets what he wants: that somebody has left is not noticed at
	// once.
	leave bool
	// together lets the crowd come at once, again and again until they meet what
	// they want.
	together bool
	// until lets the visitor come again and again until he meets what he wants:
	// it takes a while to find out who is well.
	until bool
	// idlers come before him from the same source, say nothing and stay. Then he
	// comes, and both again until he meets what he wants.
	idlers int
	// knocks lets him come without a pause until he has been refused for longer than
	// a rate is counted over, or is served again.
	knocks bool
	// each asks so many sources, thrice each, whether they meet the same gateway.
	each []visitor
	// want is the verdict of the relay, and of HAProxy unless but says otherwise.
	want verdict
	but  differs
}

// differs says that HAProxy does otherwise, and by which difference.
type differs struct {
	difference string // its name in docs/conformance.md
	verdict    verdict
}

// verdict is what became of a visitor: the gateway's name, if one serves him, with
// "as" and who the PROXY header has told it that he is; or one of those below. Of a
// crowd it has how many met which: "a 5, closed 7".
type verdict string

// What becomes of who is not served.
const (
	closed   verdict = "closed" // at once, without a byte
	late     verdict = "late"   // closed when the time for a ClientHello is over
	alert    verdict = "alert"  // the TLS alert unrecognized_name, and closed
	open     verdict = "open"   // nothing happens for a while
	nobody   verdict = "nobody" // nobody listens there
	inAgain  verdict = "refused, and let in again while he knocks"
	staysOut verdict = "refused for as long as he knocks"
	sticky   verdict = "each source meets one gateway, and all gateways are met"
)

// visitor is who comes, and how. The zero value sends nothing and stays.
type visitor struct {
	from  string // the source address. Default: 127.0.0.1 or ::1
	proxy string // a PROXY header that he opens with
	hello []byte // what he sends
	cuts  []int  // offsets in all he sends where a new segment begins
	drip  int    // or so many bytes in each segment
	shut  bool   // he says that nothing more will come
	tls   string // or he finishes a TLS handshake and asks for this name
	parts []int  // and cuts his ClientHello into TLS records of so many bytes
	after []byte // what he sends right behind the ClientHello
	quiet bool   // he says nothing once he is served, and waits for the end
	pokes bool   // he says a byte then, and waits for the end
}

func members(list ...string) (m []pool.Member) {
	for _, text := range list {
		name, weight := text, 0
		if before, after, ok := strings.Cut(text, "*"); ok {
			name = before
			fmt.Sscan(after, &weight)
		}
		m = append(m, pool.Member{Gateway: name, Weight: weight})
	}
	return m
}

// pooled is a pool in which nobody returns while a test runs, and nobody is given up
// because the machine is slow.
func pooled(policy pool.Policy, list ...string) catalog.Pool {
	return catalog.Pool{
		Name: "home", Policy: policy, Members: members(list...), Failback: "1h",
		DialTimeout: 10 * brief, TotalTimeout: 20 * brief, Hedge: -1, FirstByte: -1,
	}
}

// toPool and toGateway are routes for names.
func toPool(name string, hosts ...string) catalog.Route {
	return catalog.Route{Hosts: hosts, Pool: name}
}

func toGateway(name string, hosts ...string) catalog.Route {
	return catalog.Route{Hosts: hosts, Gateway: name}
}

// named are healthy gateways.
func named(names ...string) (list []gateway) {
	for _, name := range names {
		list = append(list, gateway{name: name})
	}
	return list
}

// asks is a visitor with a small ClientHello for a name.
func asks(name string) visitor { return visitor{hello: small(name)} }

// with changes a visitor.
func (v visitor) with(change func(*visitor)) visitor {
	change(&v)
	return v
}

func (v visitor) source(from string) visitor {
	return v.with(func(v *visitor) { v.from = from })
}

func (v visitor) header(proxy string) visitor {
	return v.with(func(v *visitor) { v.proxy = proxy })
}
