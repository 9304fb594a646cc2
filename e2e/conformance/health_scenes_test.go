package conformance_test

import (
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
)

// healths: what is known of gateways, and what nobody knows yet, says who serves.
// Each has a pool with the gateways a, b and so on, in that order.
func healths() []scene {
	return []scene{
		ranked("all-well", "a", alive, alive),
		ranked("first-down", "b", down, alive),
		ranked("second-down", "a", alive, down),
		ranked("two-down", "c", down, down, alive),
		ranked("first-drained", "b", drained, alive),
		ranked("first-disabled", "b", disabled, alive),
		ranked("first-in-cooldown", "b", cooldown, alive),
		ranked("all-in-cooldown", "a", cooldown, cooldown),
		ranked("down-and-cooldown", "b", down, cooldown),
		ranked("first-unknown", "b", unknown, alive),
		ranked("all-unknown", "a", unknown, unknown),
		ranked("down-and-unknown", "b", down, unknown),
		ranked("unknown-and-cooldown", "b", unknown, cooldown),
		ranked("drained-and-unknown", "b", drained, unknown),
		ranked("drained-and-cooldown", "b", drained, cooldown),
		ranked("held-alive", "a", heldAlive, alive),
		ranked("held-down", "b", heldDown, alive),
		ranked("all-drained", closed, drained, drained),
		ranked("all-disabled", closed, disabled, disabled),
		ranked("drained-and-disabled", closed, drained, disabled),
		ranked("all-down", "a", down, down),
		ranked("drained-and-down", "b", drained, down),
		pins(),
		faulty("refuses", refuses, "b", differs{}),
		faulty("dial-unanswered", full, "b", differs{}),
		unnoticed("two-refuse", "c", differs{"unnoticed", closed}, gateway{fault: refuses}, gateway{fault: refuses}, gateway{}),
		unnoticed("the-second-refuses", "a", differs{}, gateway{}, gateway{fault: refuses}),
		unnoticed("down-and-refuses", "c", differs{}, gateway{known: down}, gateway{fault: refuses}, gateway{}),
		unnoticed("refuses-and-cooldown", "b", differs{"unnoticed", closed}, gateway{fault: refuses}, gateway{known: cooldown}),
		unnoticed("refuses-and-down", "b", differs{"unnoticed", closed}, gateway{fault: refuses}, gateway{known: down}),
		unnoticed("cooldown-and-refuses", "a", differs{"unnoticed", closed}, gateway{known: cooldown}, gateway{fault: refuses}),
		unnoticed("down-by-all-accounts", "b", differs{}, gateway{known: down, fault: refuses}, gateway{known: down}),
		faulty("closes-at-once", slams, "b", differs{"tried again", closed}),
		faulty("resets-on-the-hello", resets, "b", differs{"tried again", closed}),
		faulty("silent", silent, "b", differs{"silence", open}),
		spreading("refuses-in-a-spread", refuses, differs{}),
		spreading("dial-unanswered-in-a-spread", full, differs{}),
		twoOfARound(),
	}
}

// ranked is a failover pool of gateways of which these things are known.
func ranked(name string, want verdict, all ...known) scene {
	s := scene{name: name, routes: []catalog.Route{toPool("home", "a.example.com")}}
	var list []string
	for i, k := range all {
		g := string(rune('a' + i))
		s.gateways, list = append(s.gateways, gateway{name: g, known: k}), append(list, g)
	}
	s.pools = []catalog.Pool{pooled(pool.Failover, list...)}
	s.rows = []row{{name: "visitor", visitor: asks("a.example.com"), want: want}}
	return s
}

// pins: who is pinned to a gateway meets the others of its pools when it is down.
func pins() scene {
	other := pooled(pool.RoundRobin, "d", "a")
	other.Name = "other"
	return scene{
		name: "pins",
		gateways: []gateway{
			{name: "a"},
			{name: "b", known: down},
			{name: "c", known: drained},
			{name: "d"},
			{name: "alone", known: down},
		},
		pools: []catalog.Pool{pooled(pool.Failover, "b", "c", "a"), other, {Name: "off", Members: members("alone", "a"), Disabled: true}},
		routes: []catalog.Route{
			toGateway("a", "a.example.com"),
			toGateway("b", "b.example.com"),
			toGateway("c", "c.example.com"),
			toGateway("d", "d.example.com"),
			toGateway("alone", "alone.example.com"),
		},
		rows: []row{
			{name: "to who is well", visitor: asks("a.example.com"), want: "a"},
			{name: "to who is down", visitor: asks("b.example.com"), want: "a"},
			{name: "to who is drained", visitor: asks("c.example.com"), want: "a"},
			{name: "to a member of a pool that spreads", visitor: asks("d.example.com"), want: "d"},
			{name: "to who is down, and in a pool that is off", visitor: asks("alone.example.com"), want: "alone"},
		},
	}
}

// faulty is a pool whose first member has a fault that nobody knows of.
func faulty(name string, f fault, want verdict, but differs) scene {
	p := pooled(pool.Failover, "a", "b")
	p.DialTimeout, p.Hedge = brief, 0
	if f == silent {
		p.FirstByte = brief
	}
	return scene{
		name:     name,
		gateways: []gateway{{name: "a", fault: f}, {name: "b"}},
		pools:    []catalog.Pool{p},
		routes:   []catalog.Route{toPool("home", "a.example.com")},
		rows:     []row{{name: "visitor", visitor: asks("a.example.com"), want: want, but: but}},
	}
}

// unnoticed is a failover pool of gateways some of which are dead, and of some of
// which something else is known.
func unnoticed(name string, want verdict, but differs, all ...gateway) scene {
	s := ranked(name, want, make([]known, len(all))...)
	for i, g := range all {
		g.name = s.gateways[i].name
		s.gateways[i] = g
	}
	s.rows[0].but = but
	return s
}

// spreading is the same in a pool that would send every other visitor to it.
func spreading(name string, f fault, but differs) scene {
	s := faulty(name, f, "b 4", but)
	s.pools[0].Policy, s.rows[0].crowd = pool.RoundRobin, 4
	return s
}

// twoOfARound is a pool that takes turns, two of whose members are dead.
func twoOfARound() scene {
	s := unnoticed("two-refuse-in-a-round", "c 6", differs{}, gateway{fault: refuses}, gateway{fault: refuses}, gateway{})
	s.pools[0].Policy, s.rows[0].crowd = pool.RoundRobin, 6
	return s
}

// watchedScenes are those in which nobody is told who is well.
func watchedScenes() []scene {
	list := []scene{
		faulty("refuses", refuses, "b", differs{}),
		faulty("dial-unanswered", full, "b", differs{}),
		faulty("silent", silent, "b", differs{"silence", open}),
		lost("all-refuse", closed, differs{}, refuses, refuses),
		lost("all-but-the-last-refuse", "c", differs{}, refuses, refuses, ""),
		lost("checks-fail", "b", differs{}, distrusted, ""),
		lost("all-checks-fail", "a", differs{"last resort", closed}, distrusted, distrusted),
	}
	for i := range list {
		list[i].rows[0].until = true
	}
	return list
}

// lost is a failover pool of gateways with these faults.
func lost(name string, want verdict, but differs, faults ...fault) scene {
	var all []gateway
	for _, f := range faults {
		all = append(all, gateway{fault: f})
	}
	return unnoticed(name, want, but, all...)
}
