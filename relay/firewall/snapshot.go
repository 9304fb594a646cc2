package firewall

// Snapshot is what was read of a machine, as text. Nothing in it was changed by
// reading it.
type Snapshot struct {
	// Ruleset is what "nft list ruleset" printed.
	Ruleset string
	// V4 and V6 are what iptables-save and ip6tables-save printed; empty where they
	// are not installed.
	V4, V6 string
	// Said is what the three wrote besides.
	Said []string
	// Legacy are tables of the old kernel interface that are in use, like "ip
	// filter".
	Legacy []string
	// Services by name; those that are not on this machine are missing.
	Services map[string]Service
	// UFWConf is /etc/ufw/ufw.conf.
	UFWConf string
	// Failed are things that could not be read, each with its cause.
	Failed []string
}

// Service is one that can change rules.
type Service struct {
	Active  bool // runs now, or ran at boot
	Enabled bool // starts at boot
}

// The services that are looked for. ufw, firewalld and docker count as installed
// if their program is there, too.
var services = []string{"ufw", "firewalld", "nftables", "docker"}
