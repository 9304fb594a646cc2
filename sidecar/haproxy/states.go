package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// State is one server as "show servers state" has it: manual of 2.6, management
// guide 9.3.
type State struct {
	Backend, Server string
	Addr            string // an address, or "-"
	Name            string // the host name it is resolved from, or "-"
	Port            int
	Operational     int // 0 stopped, 1 starting, 2 running, 3 stopping
	Admin           int // bits: maintenance, drain
	Check           int // what the last check found: 0 unknown, 1 neutral, 2 failed, 3 passed
	Weight          int // as set by people: the config's, or what was said since
	CheckState      int // bits: 2 if a check is configured
	AgentState      int // bits: 2 if an agent's check is configured
	line            string
}

// Bits of Admin, as HAProxy's include/haproxy/server-t.h has them.
const (
	maintenance = 0x01 | 0x02 | 0x20 // forced, inherited, no address
	draining    = 0x08 | 0x10        // forced, inherited
	unresolved  = 0x20
	configured  = 0x02 // of CheckState and AgentState, include/haproxy/check-t.h
)

// Up reports whether it gets visitors.
func (s State) Up() bool { return s.Operational >= 2 && !s.Maintenance() && !s.Drain() }

// Maintenance reports that it gets no visitors. A server that was "disabled" in its
// config has a bit more for ever, which means nothing here.
func (s State) Maintenance() bool { return s.Admin&maintenance != 0 }

// Drain reports that it gets no new visitors and keeps those it has.
func (s State) Drain() bool { return s.Admin&draining != 0 }

// Unresolved reports that its name has no address yet.
func (s State) Unresolved() bool { return s.Admin&unresolved != 0 }

// HasCheck reports whether HAProxy itself finds out if it is up, by a check or by
// asking an agent.
func (s State) HasCheck() bool { return (s.CheckState|s.AgentState)&configured != 0 }

// Checked reports whether its last check passed.
func (s State) Checked() bool { return s.Check >= 3 }

// stateFields is how many columns version 1 has.
const stateFields = 25

const stateHeader = "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port"

var nameForm = regexp.MustCompile(`\A[A-Za-z0-9_.:-]{1,300}\z`)

// States asks for all servers.
func (s Stats) States(ctx context.Context) ([]State, error) {
	reply, err := ask(ctx, string(s), "show servers state")
	if err != nil {
		return nil, err
	}
	list, err := ParseStates(reply)
	if err != nil {
		return nil, fmt.Errorf("asking HAProxy at %s: show servers state: %w", s, err)
	}
	return list, nil
}

// ParseStates reads the answer to "show servers state": all rows, or it returns an
// error. A row that is missing would be taken for a server that is well.
func ParseStates(reply string) (list []State, err error) {
	body, ok := strings.CutPrefix(reply, "1\n# be_id ")
	if !ok || !strings.HasPrefix("# be_id "+body, stateHeader) {
		return nil, fmt.Errorf("it is not version 1: %.80q", reply)
	}
	_, body, _ = strings.Cut(body, "\n")
	if body == "\n" {
		return nil, nil
	}
	rows, ended := strings.CutSuffix(body, "\n\n")
	if !ended {
		return nil, errors.New("it is cut short")
	}
	for line := range strings.SplitSeq(rows, "\n") {
		s, err := parseState(line)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func parseState(line string) (s State, err error) {
	f := strings.Split(line, " ")
	if len(f) != stateFields {
		return s, fmt.Errorf("a row has %d columns: want %d: %.120q", len(f), stateFields, line)
	}
	s = State{Backend: f[1], Server: f[3], Addr: f[4], Name: f[17], line: line}
	var errs [7]error
	s.Operational, errs[0] = strconv.Atoi(f[5])
	s.Admin, errs[1] = strconv.Atoi(f[6])
	s.Check, errs[3] = strconv.Atoi(f[11])
	s.Port, errs[2] = strconv.Atoi(f[18])
	s.Weight, errs[4] = strconv.Atoi(f[7])
	s.CheckState, errs[5] = strconv.Atoi(f[13])
	s.AgentState, errs[6] = strconv.Atoi(f[14])
	if err := errors.Join(errs[:]...); err != nil {
		return s, err
	}
	if !nameForm.MatchString(s.Backend) || !nameForm.MatchString(s.Server) || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s, fmt.Errorf("a row has another form: %.120q", line)
	}
	return s, nil
}

// EmptyStates is a state file that says nothing.
const EmptyStates = "1\n"

// StateFile writes a state file for the servers that are in the next config, by
// "backend/server", at the same place: HAProxy would take the address of the file
// before that of the config. It returns how many there are.
func StateFile(states []State, next map[string]string) (text string, carried int) {
	var b strings.Builder
	b.WriteString(EmptyStates)
	b.WriteString(stateHeader + " srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n")
	for _, s := range states {
		at, ok := next[s.Backend+"/"+s.Server]
		if ok && s.at(at) {
			b.WriteString(s.row(at) + "\n")
			carried++
		}
	}
	return b.String(), carried
}

// at reports whether the server is where a config says.
func (s State) at(place string) bool {
	if want, err := netip.ParseAddrPort(place); err == nil {
		addr, err := netip.ParseAddr(s.Addr)
		return err == nil && netip.AddrPortFrom(addr, uint16(s.Port)) == want
	}
	return s.Name+":"+strconv.Itoa(s.Port) == place
}

// row is the line for a config that says place. What was a name may be an address
// there: what the name had become.
func (s State) row(place string) string {
	if _, err := netip.ParseAddrPort(place); err != nil || s.Name == "-" {
		return s.line
	}
	f := strings.Split(s.line, " ")
	f[17] = "-"
	return strings.Join(f, " ")
}
