package edge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/relay/pool"
)

// object is a JSON object that is sent.
type object = map[string]any

// flagKind is how a flag's text becomes JSON.
type flagKind uint8

const (
	asText    flagKind = iota
	asHead             // a text without which what it is a member of means nothing
	asNumber           // a whole number
	asSwitch           // true or false
	asList             // texts with commas in between
	asMembers          // gateways with commas in between, each with *<weight> if it has one
	asTarget           // host:port, two members
	asFile             // what is in the file of that name
)

// setting is a flag that sets a member of what is configured. An empty text takes
// it back to its default.
type setting struct {
	flag string
	path string // in the JSON, with dots
	kind flagKind
	help string
}

var gatewaySettings = []setting{
	{"dial", "dial", asText, "host:port where it is dialled"},
	{"proxy-protocol", "proxy_protocol", asText, "v1 or v2: the header it expects before a visitor's first byte"},
	{"http-port", "http_port", asNumber, "port of its agent for routes by HTTP host"},
	{"check", "check.kind", asHead, "tcp, tls, https or off; empty: all of the check is the default"},
	{"check-server-name", "check.server_name", asText, "name that a tls or https check asks for"},
	{"check-roots", "check.roots", asFile, "file with the certificates that a check trusts"},
	{"check-insecure", "check.insecure", asSwitch, "take any certificate"},
	{"check-path", "check.path", asText, "path that an https check asks for"},
	{"check-host", "check.host", asText, "host that an https check asks for"},
	{"check-status", "check.status", asList, "statuses that are good, like 200,3xx"},
	{"check-body", "check.body", asText, "text that must be in the body"},
	{"check-interval", "check.interval", asText, "time between checks"},
	{"check-fast", "check.fast", asText, "the same while something is wrong"},
	{"check-timeout", "check.timeout", asText, "how long a check may take"},
	{"check-stale", "check.stale", asText, "how long evidence counts"},
	{"check-fall", "check.fall", asNumber, "bad checks until it is down"},
	{"check-rise", "check.rise", asNumber, "good checks until it is alive"},
}

var poolSettings = []setting{
	{"members", "members", asMembers, "gateways by priority: nuc,nas*2"},
	{"policy", "policy", asText, "failover, round_robin, least_conn or ip_hash"},
	{"failback", "failback", asText, "cooldown of a member that came back: a duration, or container, vm, nas, ..."},
	{"disabled", "disabled", asSwitch, "serve nobody"},
	{"slow-start", "slow_start", asText, "how long a member takes to its full share"},
	{"on-down", "on_down", asText, "keep or close the connections of a member that went down"},
	{"return-after", "return_after", asText, "how long after a failback the stand-ins keep their connections"},
	{"dial-timeout", "dial_timeout", asText, "how long a dial may take"},
	{"hedge", "hedge", asText, "when to dial another member beside the first"},
	{"first-byte", "first_byte", asText, "how long a member may take to answer"},
	{"total-timeout", "total_timeout", asText, "how long all attempts may take"},
	{"idle", "idle", asText, "how long a connection may be quiet"},
	{"linger", "linger", asText, "how long one half of a connection may be open alone"},
	{"outage-status", "outage.status", asNumber, "HTTP status while nobody serves"},
	{"outage-body", "outage.body", asText, "page while nobody serves"},
	{"outage-content-type", "outage.content_type", asText, "media type of that page"},
	{"outage-retry-after", "outage.retry_after", asText, "when to try again"},
}

var routeSettings = []setting{
	{"kind", "kind", asText, "tls, tcp, udp or http"},
	{"host", "hosts", asList, "names that visitors ask for: example.com,*.example.com"},
	{"port", "port", asNumber, "port that visitors of tcp and udp come to"},
	{"listener", "listener", asText, "only this listener of the Caddyfile"},
	{"gateway", "gateway", asText, "pin it to a gateway"},
	{"pool", "pool", asText, "lead it to a pool"},
	{"target", "target", asTarget, "host:port in the home's network"},
	{"target-tls", "target.tls", asSwitch, "speak HTTPS to it"},
	{"target-insecure", "target.insecure", asSwitch, "and take any certificate"},
	{"target-proxy-protocol", "target.proxy_protocol", asText, "v1 or v2"},
	{"disabled", "disabled", asSwitch, "serve nobody"},
}

// addTo gives a command the flags of the settings.
func addTo(cmd *cobra.Command, settings []setting) {
	for _, s := range settings {
		switch s.kind {
		case asSwitch:
			cmd.Flags().Bool(s.flag, false, s.help)
		default:
			cmd.Flags().String(s.flag, "", s.help)
		}
	}
	cmd.Flags().String("json-file", "", "JSON with more settings, as the API has them; - is standard input")
}

// collect makes the body of a request from the flags that were given.
func collect(cmd *cobra.Command, settings []setting) (object, error) {
	body, err := fromFile(cmd)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		if !cmd.Flags().Changed(s.flag) {
			continue
		}
		if err := s.put(body, cmd.Flags().Lookup(s.flag).Value.String()); err != nil {
			return nil, fmt.Errorf("--%s: %w", s.flag, err)
		}
	}
	return body, nil
}

func fromFile(cmd *cobra.Command) (object, error) {
	body := object{}
	name, _ := cmd.Flags().GetString("json-file")
	if name == "" {
		return body, nil
	}
	data, err := readInput(cmd, name)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &body); err != nil || body == nil {
		return nil, errors.Join(fmt.Errorf("%s is no JSON object", name), err)
	}
	return body, nil
}

func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(name)
}

// put sets one member; an empty text is null, which means the default.
func (s setting) put(body object, text string) error {
	path := strings.Split(s.path, ".")
	if s.kind == asHead && text == "" {
		body[path[0]] = nil
		return nil
	}
	for _, name := range path[:len(path)-1] {
		inner, ok := body[name].(object)
		if !ok {
			inner = object{}
			body[name] = inner
		}
		body = inner
	}
	value, err := s.value(text)
	if target, ok := value.(object); ok {
		inner, _ := body[s.path].(object) // of the file; the flag wins
		for name, v := range inner {
			if _, flagged := target[name]; !flagged {
				target[name] = v
			}
		}
	}
	body[path[len(path)-1]] = value
	return err
}

func (s setting) value(text string) (any, error) {
	if text == "" {
		return nil, nil
	}
	switch s.kind {
	case asNumber:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q: want a number", text)
		}
		return n, nil
	case asSwitch:
		return text == "true", nil
	case asList:
		return words(text), nil
	case asMembers:
		return membersOf(text)
	case asTarget:
		return targetOf(text)
	case asFile:
		data, err := os.ReadFile(text)
		return string(data), err
	}
	return text, nil
}

// words are the texts between commas.
func words(text string) []string {
	list := []string{}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

func membersOf(text string) (list []pool.Member, err error) {
	for _, word := range words(text) {
		name, weight, weighted := strings.Cut(word, "*")
		m := pool.Member{Gateway: name}
		if weighted {
			if m.Weight, err = strconv.Atoi(weight); err != nil {
				return nil, fmt.Errorf("%q: want <gateway>*<weight>", word)
			}
		}
		list = append(list, m)
	}
	return list, nil
}

func targetOf(text string) (object, error) {
	host, port, err := splitTarget(text)
	return object{"host": host, "port": port}, err
}

func splitTarget(text string) (host string, port int, err error) {
	host, digits, err := net.SplitHostPort(text)
	if err == nil {
		port, err = strconv.Atoi(digits)
	}
	if err != nil {
		return "", 0, fmt.Errorf("%q: want <host>:<port>", text)
	}
	return host, port, nil
}
