package stage

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
)

// pace are times that suit a story that people wait for. A machine that has other
// things to do must not lose a lease of this length.
const pace = `
		interval 700ms
		down 3
		strikes 3
		lease ttl 8s fence 3s settle 1s
		stagger 1s
		grace 3s
		retry 300ms 2s
		pause 2s
		limit 10s`

func (w *World) machineFile(p *Process, name string, host byte, more string) string {
	addr := w.at(host)
	return fmt.Sprintf(`{
	admin unix/%s
	persist_config off
	grace_period 1s
	log {
		exclude admin.api
	}
	edge_cluster {
		name %s
		listen %s
		advertise %[3]s
		data_dir %[4]s
		heartbeat 200ms
		election 2s
		snapshots off
	}%[5]s
}
`, p.file("admin"), name, netip.AddrPortFrom(addr, clusterPort), p.file("cluster"), more)
}

// homeFile is the Caddyfile of a home: the same everywhere but for what is this home's.
func (w *World) homeFile(h *Home) string {
	var homes []string
	for _, o := range w.homes {
		homes = append(homes, w.homeBlock(o))
	}
	return w.machineFile(h.Process, h.ID, h.host, fmt.Sprintf(`
	edge_fallback {
		id %s
		state_dir %s
		peer {
			listen %s
			cert %s
			key %s
			ca %s
		}
		cloudflare zone %s token fake-token name_servers %s
		api %s
		resolver %s
		resolver %s
		roots %s
		address off
		witness tcp %s%s
		%s%s
	}`, h.ID, h.file("state"), netip.AddrPortFrom(w.at(h.host), peerPort), h.file("cert.pem"), h.file("key.pem"), filepath.Join(w.dir, "ca.pem"),
		zoneName, w.Cloud.dns, w.Cloud.api, w.Cloud.resolvers[0], w.Cloud.resolvers[1], filepath.Join(w.dir, "roots.pem"),
		strings.Join(w.Cloud.witnesses, " "), pace, w.cfg.App+w.cfg.At(h.ID), strings.Join(homes, "")))
}

func (w *World) homeBlock(h *Home) string {
	var others, fixed []string
	for _, o := range w.homes {
		fixed = append(fixed, fmt.Sprintf("\n\t\t\t\tfixed %s %s", o.ID, o.Public()))
		if o != h {
			others = append(others, o.ID)
		}
	}
	slices.Sort(fixed)
	return fmt.Sprintf(`
		home %[1]s {
			peer %[2]s
			covered_by %[3]s
			dns %[1]s.%[4]s {
				families ipv4%[5]s
			}%[6]s
		}`, h.ID, netip.AddrPortFrom(w.at(h.host), peerPort), strings.Join(others, " "), zoneName, strings.Join(fixed, ""), w.cfg.Tiers(w, h.ID))
}

// Services are two tiers: a database and a site that needs it, and two seconds later
// a wiki. Their names are the home's and one of db, web and wiki.
func (w *World) Services(home string) string {
	return "\n\t\t\ttier 1 {" + w.Service(home, "db", 0) + w.Service(home, "web", 1, "after "+home+"-db") + "\n\t\t\t}" +
		"\n\t\t\ttier 2 2s {" + w.Service(home, "wiki", 2) + "\n\t\t\t}"
}

// Service is a home's n-th one, which is a process and has data.
func (w *World) Service(home, what string, n int, more ...string) string {
	name := home + "-" + what
	command := func(word string, args ...string) string {
		return strings.Join(append([]string{word, w.script(), word, name}, args...), " ")
	}
	var at []string
	for _, h := range w.homes {
		at = append(at, fmt.Sprintf("\n\t\t\t\t\t\tat %s %s", h.ID, h.Data(name)))
	}
	return fmt.Sprintf(`
				command %s {
					%s
					%s
					%s
					stop_within 2s
					ready 30s
					data %s {%s
						exclude .synced
					}
					%s
				}`, name, command("start", fmt.Sprint(w.port(home, n))), command("stop"), command("look"),
		w.homes[0].Data(name), strings.Join(at, ""), strings.Join(more, "\n\t\t\t\t\t"))
}

// port is that of a home's n-th service, at whatever home that runs.
func (w *World) port(home string, n int) int { return itemPort + 10*int(w.Home(home).host) + n }
