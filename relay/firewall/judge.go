package firewall

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Severity of a finding.
type Severity string

// The severities: Stop means that apply refuses, Note that it goes on.
const (
	Stop Severity = "stop"
	Note Severity = "note"
)

// Finding is one thing about this machine to know before rules come into force.
type Finding struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"` // what was found
	Why      string   `json:"why"`  // why it matters
	Do       string   `json:"do"`   // what to do about it
}

// Stops returns the findings that keep the rules from being applied.
func Stops(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Severity != Stop })
}

// Judge says what on this machine would fight with our table. Nothing found means
// that it is safe to go on; what could not be read counts as found.
func Judge(s Snapshot) []Finding {
	v := read(s)
	var all []Finding
	for _, judge := range []func(view) []Finding{
		unread, ufw, firewalld, nftables, docker, leftovers, foreign, legacy, said, strict, present,
	} {
		all = append(all, judge(v)...)
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return strings.Compare(string(b.Severity), string(a.Severity)) })
	return all
}

func unread(v view) (list []Finding) {
	for _, f := range v.Failed {
		list = append(list, Finding{
			Stop, f,
			"what cannot be seen cannot be kept out of harm's way, and no backup of it can be made",
			"run as root, and install nftables",
		})
	}
	return list
}

var (
	ufwChain    = regexp.MustCompile(`^ufw6?-`)
	dockerChain = regexp.MustCompile(`^DOCKER($|-)`)
	// The chains that installers of this kind leave behind.
	edgeChain  = regexp.MustCompile(`(?i)(^|[-_])edge(ward)?([-_0-9]|$)`)
	ufwEnabled = regexp.MustCompile(`(?im)^\s*ENABLED\s*=\s*"?yes"?\s*$`)
)

// ufw judges by what is in force and in its config: its unit counts as active on
// machines where it is switched off.
func ufw(v view) []Finding {
	_, installed := v.Services["ufw"]
	enabled := ufwEnabled.MatchString(v.UFWConf)
	const why = "ufw writes its own rules whenever it is enabled or reloaded, and two firewalls that do not know of each other are hard to reason about"
	switch {
	case !installed:
		return nil
	case enabled && v.named(ufwChain) != nil:
		return []Finding{{Stop, "ufw is active", why, "choose one of them: \"ufw disable\" and remove its package, or keep ufw and open the ports there"}}
	case enabled:
		return []Finding{{Stop, "ufw is enabled in its config, and not in force now", "it comes back at the next boot; " + why, "\"ufw disable\", then remove its package"}}
	}
	return []Finding{{Stop, "ufw is installed, and switched off", "an update or one command brings it back; " + why, "remove its package, like \"apt-get remove ufw\""}}
}

func firewalld(v view) []Finding {
	s, installed := v.Services["firewalld"]
	inForce := slices.Contains(v.tables, "inet firewalld")
	switch {
	case s.Active || inForce:
		return []Finding{{Stop, "firewalld is active", "it has rules of its own for input; what either drops is dropped", "open the ports there instead, or \"systemctl disable --now firewalld\""}}
	case s.Enabled:
		return []Finding{{Stop, "firewalld starts at boot", "it has rules of its own for input; what either drops is dropped", "\"systemctl disable firewalld\""}}
	case installed:
		return []Finding{{Note, "firewalld is installed, and switched off", "if it is ever started, what either drops is dropped", "remove its package if you do not need it"}}
	}
	return nil
}

// foreignTables are those that neither we nor iptables wrote.
func (v view) foreignTables() (list []string) {
	for _, t := range v.tables {
		if !standardTable.MatchString(t) && t != "inet firewalld" {
			list = append(list, t)
		}
	}
	return list
}

// The tables that iptables keeps in nft.
var standardTable = regexp.MustCompile(`^ip6? (filter|nat|mangle|raw|security)$`)

func nftables(v view) []Finding {
	s := v.Services["nftables"]
	if !s.Active && !s.Enabled {
		return nil
	}
	const why = "its file usually begins with \"flush ruleset\", which removes every table, ours too, whenever it starts or reloads"
	if len(v.tables) > 0 {
		return []Finding{{
			Stop, "nftables.service is in use, with " + strings.Join(v.tables, ", "), why,
			"open the ports in its file instead, or move its rules away and \"systemctl disable --now nftables\"",
		}}
	}
	return []Finding{{Note, "nftables.service is in use, with no tables", why, "load ours with edge-firewall.service, which comes after it and follows its reloads"}}
}

func docker(v view) []Finding {
	s, installed := v.Services["docker"]
	if !installed {
		return nil
	}
	what := "Docker is installed"
	if s.Active || v.named(dockerChain) != nil {
		what = "Docker is active"
	}
	return []Finding{{
		Stop, what,
		"ports that containers publish are forwarded before any rule for input is asked: they would stay open to everybody while this looks closed",
		"keep containers off the relay and remove Docker, or write a firewall for both by hand",
	}}
}

func leftovers(v view) (list []Finding) {
	for _, of := range []struct {
		name    string
		pattern *regexp.Regexp
		owner   string
	}{{"ufw", ufwChain, "ufw"}, {"Docker", dockerChain, "docker"}, {"an earlier edge firewall", edgeChain, ""}} {
		found := v.named(of.pattern)
		if _, installed := v.Services[of.owner]; installed || found == nil {
			continue
		}
		list = append(list, Finding{
			Stop, fmt.Sprintf("chains are left of %s: %s", of.name, some(found)),
			"rules that nothing maintains any more still drop and accept, and after a reboot they may not",
			"look at them with \"nft list ruleset\" and iptables-save, and remove them and what jumps to them",
		})
	}
	return list
}

func foreign(v view) []Finding {
	found := v.foreignTables()
	if found == nil {
		return nil
	}
	return []Finding{{
		Stop, "tables of somebody else: " + some(found),
		"what one table accepts another can still drop, and nothing here knows what they are for",
		"find out which program made them (\"nft list ruleset\") and move its rules away if they filter input",
	}}
}

func legacy(v view) []Finding {
	if len(v.Legacy) == 0 {
		return nil
	}
	return []Finding{{
		Stop, "the old backend of iptables is in use beside nft: " + some(v.Legacy),
		"the kernel asks both, and neither shows the other's rules: \"nft list ruleset\" does not say all that is dropped",
		"move the rules with iptables-legacy-save and iptables-restore, flush the old ones, and say \"update-alternatives --set iptables /usr/sbin/iptables-nft\"",
	}}
}

func said(v view) (list []Finding) {
	for _, text := range v.Said {
		list = append(list, Finding{
			Stop, "reading the rules gave a warning: " + text,
			"what was read may not be all that is in force", "look into the warning first",
		})
	}
	return list
}

// strict finds rules of others for input, which hold beside ours.
func strict(v view) []Finding {
	stops := map[string]bool{} // tables where input, or a chain it may jump to, drops
	for _, c := range v.chains {
		stops[c.table] = stops[c.table] || c.stops && (c.hook == "" || c.hook == "input")
	}
	var found []string
	for _, c := range v.chains {
		if c.hook == "input" && stops[c.table] && !slices.Contains(found, c.String()) {
			found = append(found, c.String())
		}
	}
	if found == nil {
		return nil
	}
	return []Finding{{
		Note, "other rules for input drop or reject: " + some(found),
		"what they drop is dropped whatever our table says, visitors of the relay included",
		"see that they accept the relay's ports, like \"iptables -I INPUT -p tcp --dport 443 -j ACCEPT\" and the same with ip6tables",
	}}
}

func present(v view) []Finding {
	table := ours(v.Ruleset)
	if table == "" {
		return nil
	}
	if !plain(table) {
		return []Finding{{
			Stop, "our table holds more than chains, sets and maps: somebody changed it", "it could not be restored exactly",
			"keep a copy (\"nft list table " + Table + "\"), then \"nft delete table " + Table + "\"",
		}}
	}
	return []Finding{{Note, "our table is there already", "apply replaces its rules, and the rollback restores them", "nothing"}}
}

// ours returns our table out of a whole ruleset, or nothing.
func ours(ruleset string) string {
	_, rest, found := strings.Cut("\n"+ruleset, "\ntable "+Table+" {")
	if !found {
		return ""
	}
	body, _, _ := strings.Cut(rest, "\n}")
	return "table " + Table + " {" + body + "\n}\n"
}

// some names a few of many.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
