package firewall

import (
	"fmt"
	"regexp"
	"strings"
)

// Table is the one table that is ours.
const Table = "inet edgeward"

// marker is the first line of a file that may be overwritten.
const marker = "# Written by \"firewall confirm\", which overwrites it."

// Script is a file for nft -f that puts the rules in force in one transaction,
// whatever version of our table is there.
func (r Rules) Script() string {
	return fmt.Sprintf("%s\ntable %s\ndelete table %s\n%s", marker, Table, Table, r.table())
}

// table is our table as nft prints it.
func (r Rules) table() string {
	r = r.withDefaults()
	var b strings.Builder
	rule := func(format string, args ...any) { fmt.Fprintf(&b, "\t\t"+format+"\n", args...) }
	fmt.Fprintf(&b, "table %s {\n\tchain input {\n", Table)
	rule("type filter hook input priority filter; policy drop;")
	rule(`iif "lo" accept`)
	rule("ct state invalid drop")
	rule("ct state established,related accept")
	// Errors carry path MTU discovery and are never limited (RFC 4890, 4.3.1).
	rule("icmp type { destination-unreachable, time-exceeded, parameter-problem } accept")
	rule("icmp type echo-request limit rate 20/second burst 40 packets accept")
	rule("icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } accept")
	// Without these a host has no neighbours and no router (RFC 4890, 4.4.1); a hop
	// limit of 255 proves that they come from this link (RFC 4861, 6.1 and 7.1).
	rule("icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept")
	rule("ip6 saddr fe80::/10 icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report } accept")
	rule("icmpv6 type echo-request limit rate 20/second burst 40 packets accept")
	// Answers to a broadcast or a multicast belong to no known flow (RFC 2131, 4.1; RFC 8415, 7.2).
	rule("meta nfproto ipv4 udp sport 67 udp dport 68 accept")
	rule("ip6 saddr fe80::/10 ip6 daddr fe80::/10 udp dport 546 accept")
	if v4 := r.admins(false); v4 != nil {
		rule("ip saddr %s tcp dport %d accept", list(v4), r.SSH)
	}
	if v6 := r.admins(true); v6 != nil {
		rule("ip6 saddr %s tcp dport %d accept", list(v6), r.SSH)
	}
	rule("tcp dport %s accept", list(r.TCP))
	if len(r.UDP) > 0 {
		rule("udp dport %s accept", list(r.UDP))
	}
	b.WriteString("\t}\n}\n")
	return b.String()
}

// list is one value, or a set, as nft prints it.
func list[T any](values []T) string {
	if len(values) == 1 {
		return fmt.Sprint(values[0])
	}
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return "{ " + strings.Join(words, ", ") + " }"
}

// learning drops nothing: it makes the kernel track connections. One whose other
// side alone speaks would otherwise be dropped as new when the rules come, because
// the kernel has not seen it begin.
const learning = "table " + Table + " {\n\tchain input {\n" +
	"\t\ttype filter hook input priority filter; policy accept;\n" +
	"\t\tct state established,related accept\n\t}\n}\n"

// replace is a transaction that makes of our table, listed as current, the one
// listed as next. Empty means that there is none. The table is kept and only its
// content exchanged, because a new one would be listed behind those of others.
func replace(current, next string) string {
	switch {
	case current == "" && next == "":
		return ""
	case current == "":
		return next
	case next == "" || !plain(current):
		return "delete table " + Table + "\n" + next
	}
	found := content.FindAllStringSubmatch(current, -1)
	var b strings.Builder
	each := func(verb string, chains bool) {
		for _, m := range found {
			if (m[1] == "chain") == chains {
				fmt.Fprintf(&b, "%s %s %s %s\n", verb, m[1], Table, m[2])
			}
		}
	}
	// Rules hold on to sets and chains, and the elements of a map to chains.
	fmt.Fprintf(&b, "flush table %s\n", Table)
	each("flush", false)
	each("delete", true)
	each("delete", false)
	b.WriteString(next)
	return b.String()
}

// content finds what a table holds; the first level is indented by one tab.
var content = regexp.MustCompile(`(?m)^\t(chain|set|map) (\S+) \{$`)

// plain tells whether a table holds nothing but chains, sets and maps. Ours holds a
// chain, unless somebody changed it by hand.
func plain(table string) bool {
	for line := range strings.Lines(table) {
		line = strings.TrimSuffix(line, "\n")
		first := strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "\t\t")
		if first && line != "\t}" && !content.MatchString(line) {
			return false
		}
	}
	return true
}

// sameRules says what a table that was read back lacks of the one that was sent.
// Versions of nft print the same rule in different words, so it counts them.
func sameRules(sent, read string) error {
	want, got := countRules(sent), countRules(read)
	if got != want {
		return fmt.Errorf("%d rules are in force and %d were sent", got, want)
	}
	for _, policy := range []string{"policy drop;", "policy accept;"} {
		if strings.Contains(sent, policy) && !strings.Contains(read, policy) {
			return fmt.Errorf("the chain has no %q", policy)
		}
	}
	return nil
}

// countRules counts the lines inside chains. Long sets are printed on several,
// which are indented further.
func countRules(table string) int { return len(ruleLine.FindAllStringIndex(table, -1)) }

var ruleLine = regexp.MustCompile(`(?m)^\t\t\S`)
