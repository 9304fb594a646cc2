package firewall

import (
	"regexp"
	"slices"
	"strings"
)

// chain is one chain that was found, by where it is.
type chain struct {
	table string // family and name
	name  string
	hook  string // "input" and so on; empty for one that only others jump to
	stops bool   // its policy or one of its rules drops or rejects
}

func (c chain) String() string { return c.table + " " + c.name }

var (
	tableLine = regexp.MustCompile(`^table (\S+) (\S+) \{`)
	chainLine = regexp.MustCompile(`^\tchain (\S+) \{`)
	hookLine  = regexp.MustCompile(`^\t\ttype \S+ hook (\S+) .*?(?:policy (\S+);)?$`)
	stopRule  = regexp.MustCompile(`(^|[ \t"])(drop|reject|DROP|REJECT)($|[ \t"])`)
	quoted    = regexp.MustCompile(`(comment|prefix|--comment|--log-prefix) "[^"]*"`)
)

// parseRuleset reads what nft prints. Rules are indented by two tabs, so that no
// comment in one can pass for a table.
func parseRuleset(text string) (tables []string, chains []chain) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := tableLine.FindStringSubmatch(line); m != nil {
			tables = append(tables, m[1]+" "+m[2])
			continue
		}
		if m := chainLine.FindStringSubmatch(line); m != nil && len(tables) > 0 {
			chains = append(chains, chain{table: tables[len(tables)-1], name: m[1]})
			continue
		}
		if len(chains) == 0 || !strings.HasPrefix(line, "\t\t") {
			continue
		}
		last := &chains[len(chains)-1]
		if m := hookLine.FindStringSubmatch(line); m != nil {
			last.hook, last.stops = m[1], m[2] == "drop"
		} else if stopRule.MatchString(quoted.ReplaceAllString(line, "")) {
			last.stops = true
		}
	}
	return tables, chains
}

// parseSaved reads what iptables-save prints.
func parseSaved(family, text string) (chains []chain) {
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = family + " " + line[1:]
		case strings.HasPrefix(line, ":") && len(f) > 1:
			c := chain{table: table, name: f[0][1:], stops: f[1] == "DROP"}
			if f[1] != "-" { // only those of the kernel have a policy
				c.hook = strings.ToLower(c.name)
			}
			chains = append(chains, c)
		case len(f) > 2 && f[0] == "-A" && stopRule.MatchString(quoted.ReplaceAllString(line, "")):
			i := slices.IndexFunc(chains, func(c chain) bool { return c.table == table && c.name == f[1] })
			if i >= 0 {
				chains[i].stops = true
			}
		}
	}
	return chains
}

// view is a snapshot, read.
type view struct {
	Snapshot
	tables []string // of nft, without ours
	chains []chain  // of all, without ours
}

func read(s Snapshot) view {
	tables, chains := parseRuleset(s.Ruleset)
	for _, c := range slices.Concat(parseSaved("ip", s.V4), parseSaved("ip6", s.V6)) {
		// The new iptables writes nft tables, so most are known already.
		same := func(o chain) bool { return o.String() == c.String() }
		if i := slices.IndexFunc(chains, same); i < 0 {
			chains = append(chains, c)
		} else {
			chains[i].stops = chains[i].stops || c.stops
		}
	}
	return view{
		Snapshot: s,
		tables:   slices.DeleteFunc(tables, func(t string) bool { return t == Table }),
		chains:   slices.DeleteFunc(chains, func(c chain) bool { return c.table == Table }),
	}
}

// named returns the chains whose names match.
func (v view) named(pattern *regexp.Regexp) (list []string) {
	for _, c := range v.chains {
		if pattern.MatchString(c.name) {
			list = append(list, c.String())
		}
	}
	return list
}
