package fallback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edgeward/edgeward/watchdog/fallback/drill"
)

// window is when a real drill may begin, by the clock on the wall.
type window struct {
	from, to time.Duration // of the day; from behind to: it goes past midnight
	days     []time.Weekday
	text     string
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseWindow reads "02:00-05:00 sat sun". Without a day it is every day.
func parseWindow(text string) (*window, error) {
	wrong := fmt.Errorf("%q: want times and perhaps days, like 02:00-05:00 sat sun", text)
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, wrong
	}
	w := &window{text: text}
	from, to, _ := strings.Cut(words[0], "-")
	for _, t := range []struct {
		text string
		to   *time.Duration
	}{{from, &w.from}, {to, &w.to}} {
		at, err := time.Parse("15:04", t.text)
		if err != nil {
			return nil, wrong
		}
		*t.to = time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	}
	for _, day := range words[1:] {
		i := slices.Index(weekdays, day)
		if i < 0 {
			return nil, wrong
		}
		w.days = append(w.days, time.Weekday(i))
	}
	if w.from == w.to {
		return nil, wrong
	}
	return w, nil
}

// open says why there may be no real drill at that time.
func (w *window) open(now time.Time) error {
	of := time.Duration(now.Hour())*time.Hour + time.Duration(now.Minute())*time.Minute
	day := now.Weekday()
	in := of >= w.from && of < w.to
	if w.from > w.to {
		in = of >= w.from || of < w.to
		if of < w.to {
			day = (day + 6) % 7 // it began yesterday
		}
	}
	if !in || len(w.days) > 0 && !slices.Contains(w.days, day) {
		return fmt.Errorf("drill_window is %s, and it is %s", w.text, strings.ToLower(now.Format("Mon 15:04")))
	}
	return nil
}

// asked is a cluster that can be asked for its members.
type asked interface {
	Client() (*clientv3.Client, error)
}

// wall is what this machine is cut off from in a real drill: the other homes, and the
// members of the cluster.
func (r *running) wall(ctx context.Context) (w drill.Wall, err error) {
	c, ok := r.cluster.(asked)
	if !ok {
		return w, errors.New("the cluster does not say where its members are")
	}
	client, err := c.Client()
	if err != nil {
		return w, err
	}
	far, near := []string{}, []string{r.peer.Listen}
	for _, h := range r.homes {
		if h.ID != r.id && h.Peer != "" {
			far = append(far, h.Peer)
		}
	}
	if app, ok := r.cluster.(certified); ok && app.PeerTLS() == nil {
		far = append(far, hosts(client.Endpoints())...) // an etcd of others
	} else {
		members, err := client.MemberList(ctx)
		if err != nil {
			return w, fmt.Errorf("asking for the members of the cluster: %w", err)
		}
		for _, m := range members.Members {
			if m.Name == r.id {
				near = append(near, hosts(m.PeerURLs)...)
			} else {
				far = append(far, hosts(m.PeerURLs)...)
			}
		}
	}
	return wallOf(ctx, far, near)
}

// hosts are the host:port of URLs.
func hosts(urls []string) (list []string) {
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil && u.Host != "" {
			s = u.Host
		}
		list = append(list, s)
	}
	return list
}

// wallOf looks names up. Of what is near only the port counts.
func wallOf(ctx context.Context, far, near []string) (w drill.Wall, err error) {
	for _, s := range far {
		host, port, err := splitPort(s)
		if err != nil {
			return w, err
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return w, fmt.Errorf("finding what to cut off: %w", err)
		}
		for _, a := range addrs {
			a = a.Unmap()
			w.Far = append(w.Far, netip.AddrPortFrom(a, port))
			if !slices.Contains(w.Hosts, a) {
				w.Hosts = append(w.Hosts, a)
			}
		}
	}
	for _, s := range near {
		_, port, err := splitPort(s)
		if err != nil {
			return w, err
		}
		w.Near = append(w.Near, port)
	}
	if len(w.Far) == 0 {
		return w, errors.New("there is nothing to cut off: no other home has a peer")
	}
	return w, nil
}

func splitPort(s string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, fmt.Errorf("finding what to cut off: %w", err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("finding what to cut off: %s: %w", s, err)
	}
	return host, uint16(n), nil
}
