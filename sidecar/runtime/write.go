package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/sidecar/haproxy"
)

// State is what a server can be set to.
type State string

// The states. Ready takes visitors; Drain keeps those it has; Maint has none, and
// closes those it has where the config says so.
const (
	Ready State = "ready"
	Drain State = "drain"
	Maint State = "maint"
)

// Command is one change of one server. Use the functions that make them.
type Command struct {
	Backend, Server string
	text            string // behind "set server <backend>/<server> ", or all of it
	whole           bool
	done            func(haproxy.State) bool // nil: it cannot be seen
	err             error
}

// String returns what is sent.
func (c Command) String() string {
	if c.whole {
		return c.text
	}
	return "set server " + c.Backend + "/" + c.Server + " " + c.text
}

// nameForm is what may stand in a command: HAProxy's own names, and nothing that
// ends a command or a word.
var nameForm = regexp.MustCompile(`\A[A-Za-z0-9_.:-]{1,300}\z`)

func command(backend, server string) Command {
	c := Command{Backend: backend, Server: server}
	for _, name := range []string{backend, server} {
		if !nameForm.MatchString(name) {
			c.err = fmt.Errorf("%.60q is not a name: want letters, digits, and . _ : -", name)
		}
	}
	return c
}

// SetState changes whether a server gets visitors.
func SetState(backend, server string, to State) Command {
	c := command(backend, server)
	c.text = "state " + string(to)
	switch to {
	case Ready:
		c.done = func(s haproxy.State) bool { return !s.Maintenance() && !s.Drain() && s.Operational > 0 }
	case Drain:
		c.done = func(s haproxy.State) bool { return !s.Maintenance() && s.Drain() }
	case Maint:
		c.done = haproxy.State.Maintenance
	default:
		c.err = fmt.Errorf("state %.40q: want ready, drain or maint", to)
	}
	return c
}

// SetWeight changes a server's share, 0 to 256.
func SetWeight(backend, server string, weight int) Command {
	c := command(backend, server)
	c.text = fmt.Sprintf("weight %d", weight)
	c.done = func(s haproxy.State) bool { return s.Weight == weight }
	if weight < 0 || weight > 256 {
		c.err = fmt.Errorf("weight %d: want 0 to 256", weight)
	}
	return c
}

// SetAddr changes where a server is. HAProxy takes it only for a server that has an
// address: one whose name never resolved would look ready and be nowhere.
func SetAddr(backend, server string, to netip.AddrPort) Command {
	c := command(backend, server)
	c.text = fmt.Sprintf("addr %s port %d", to.Addr(), to.Port())
	c.done = func(s haproxy.State) bool {
		addr, err := netip.ParseAddr(s.Addr)
		return err == nil && netip.AddrPortFrom(addr, uint16(s.Port)) == to
	}
	if !to.IsValid() || to.Port() == 0 || to.Addr().Zone() != "" || to.Addr().Is4In6() {
		c.err = fmt.Errorf("address %s: want an IP address with a port", to)
	}
	return c
}

// Shutdown closes the connections that a server has. HAProxy does it afterwards, so
// that it cannot be read back.
func Shutdown(backend, server string) Command {
	c := command(backend, server)
	c.text, c.whole = "shutdown sessions server "+backend+"/"+server, true
	return c
}

// Unconfirmed is what was asked and not seen to be so. The other commands are.
type Unconfirmed struct {
	Commands []Command
	Said     []string // by HAProxy
}

// Error implements error with the first of them.
func (u *Unconfirmed) Error() string {
	text := fmt.Sprintf("could not confirm %q", u.Commands[0].String())
	if len(u.Commands) > 1 {
		text += fmt.Sprintf(" and %d more", len(u.Commands)-1)
	}
	if len(u.Said) > 0 {
		text += ": HAProxy says " + strings.Join(u.Said, "; ")
	}
	return text
}

const (
	// maxLine is how many bytes of commands go at once: HAProxy reads them into one
	// buffer, of 16 kB by default, and client-native's own limit is this.
	maxLine = 7 << 10
	// maxBackends is of how many backends the servers are read one by one. With
	// more, all are.
	maxBackends = 8
)

// ErrStopping says that the worker that answered is one that a reload has replaced.
var ErrStopping = errors.New("the worker is being replaced")

// ErrLevel says that the socket does not let us write.
var ErrLevel = errors.New(`the stats socket is not of level admin: run "edge-sidecar apply" with health "sidecar"`)

// Read returns all servers, and who answered.
func (c *Client) Read(ctx context.Context) (Reply, error) {
	r, _, err := c.read(ctx, "show servers state;"+identity, 1)
	return r, err
}

// Worker returns who answers.
func (c *Client) Worker(ctx context.Context) (Worker, error) {
	r, _, err := c.read(ctx, identity, 0)
	return r.Worker, err
}

func (c *Client) read(ctx context.Context, commands string, blocks int) (Reply, bool, error) {
	text, err := c.ask(ctx, commands)
	if err != nil {
		return Reply{}, false, err
	}
	r, admin, err := parse(text, blocks)
	if err != nil {
		return Reply{}, false, c.failed(err)
	}
	return r, admin, nil
}

// Do makes changes in order and returns the servers of the backends they are about,
// as they are afterwards. It returns [*Unconfirmed], together with them, if HAProxy
// answered and not all is as asked. With any other error nothing is known: some may
// have been made.
func (c *Client) Do(ctx context.Context, commands ...Command) (r Reply, err error) {
	if err := check(commands); err != nil {
		return r, err
	}
	for line := range lines(commands) {
		part, err := c.write(ctx, line)
		if err != nil {
			return Reply{}, err
		}
		if r.Worker.PID != 0 && !part.Worker.Same(r.Worker) {
			return Reply{}, c.failed(errors.New("another worker answered in the middle"))
		}
		r.Worker, r.Said = part.Worker, append(r.Said, part.Said...)
		r.Servers = merge(r.Servers, part.Servers)
	}
	if missed := unconfirmed(commands, r.Servers); len(missed) > 0 {
		return r, &Unconfirmed{missed, r.Said}
	}
	return r, nil
}

func check(commands []Command) error {
	for _, cmd := range commands {
		if cmd.err != nil {
			return cmd.err
		}
		if cmd.Backend == "" { // not made by a function of ours
			return errors.New("a command without a server")
		}
	}
	return nil
}

// lines cuts commands into what fits into one line.
func lines(commands []Command) func(yield func([]Command) bool) {
	return func(yield func([]Command) bool) {
		begin, size := 0, 0
		for i, cmd := range commands {
			n := len(cmd.String()) + 1
			if i > begin && size+n > maxLine {
				if !yield(commands[begin:i]) {
					return
				}
				begin, size = i, 0
			}
			size += n
		}
		if begin < len(commands) {
			yield(commands[begin:])
		}
	}
}

// write sends one line, and reads back in the same connection.
func (c *Client) write(ctx context.Context, commands []Command) (Reply, error) {
	var text strings.Builder
	backends := map[string]bool{}
	for _, cmd := range commands {
		text.WriteString(cmd.String() + ";")
		backends[cmd.Backend] = true
	}
	blocks := len(backends)
	if blocks > maxBackends {
		blocks = 1
		text.WriteString("show servers state;")
	} else {
		for _, name := range slices.Sorted(maps.Keys(backends)) {
			text.WriteString("show servers state " + name + ";")
		}
	}
	r, admin, err := c.read(ctx, text.String()+identity, blocks)
	switch {
	case err != nil:
		return Reply{}, err
	case !admin:
		return Reply{}, c.failed(ErrLevel)
	case r.Worker.Stopping:
		return Reply{}, c.failed(ErrStopping)
	}
	return r, nil
}

// merge puts newer rows over older ones.
func merge(old, new []haproxy.State) []haproxy.State {
	if len(old) == 0 {
		return new
	}
	at := map[[2]string]int{}
	for i, s := range old {
		at[[2]string{s.Backend, s.Server}] = i
	}
	for _, s := range new {
		if i, ok := at[[2]string{s.Backend, s.Server}]; ok {
			old[i] = s
		} else {
			old = append(old, s)
		}
	}
	return old
}

// unconfirmed returns the commands whose effect is not to be seen. Of several that
// set the same the last one counts.
func unconfirmed(commands []Command, servers []haproxy.State) (missed []Command) {
	at := make(map[[2]string]haproxy.State, len(servers))
	for _, s := range servers {
		at[[2]string{s.Backend, s.Server}] = s
	}
	type what struct{ backend, server, kind string }
	final := map[what]int{}
	kind := func(c Command) what { k, _, _ := strings.Cut(c.text, " "); return what{c.Backend, c.Server, k} }
	for i, cmd := range commands {
		final[kind(cmd)] = i
	}
	for i, cmd := range commands {
		s, there := at[[2]string{cmd.Backend, cmd.Server}]
		if final[kind(cmd)] == i && (!there || cmd.done != nil && !cmd.done(s)) {
			missed = append(missed, cmd)
		}
	}
	return missed
}
