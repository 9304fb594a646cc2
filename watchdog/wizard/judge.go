package wizard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/watchdog/records"
)

// judge says what the records mean for the answers.
func (f *Findings) judge(a Answers, found []records.Record) {
	if f.Zone.Name != "" && !within(a.Domain, f.Zone.Name) {
		f.problem("zone %s is %s, and %s is not in it: correct --zone", f.Zone.ID, f.Zone.Name, a.Domain)
		return
	}
	f.judgeSite(a, found)
	f.judgeCanary(a, found)
	f.judgeCertificates(a)
}

// judgeSite sees the records as they will be once they are adopted.
func (f *Findings) judgeSite(a Answers, found []records.Record) {
	var adopted []records.Record
	for _, r := range found {
		if !slices.Contains(a.Names, r.Name) {
			continue
		}
		if r, ok := f.adopt(a, r); ok {
			adopted = append(adopted, r)
		}
	}
	_, refused := records.Adoption(a.Names, found, records.Options{})
	for _, c := range refused {
		if c.Reason == records.CommentFull { // of the others the view says more
			f.problem("%s", c.Error())
		}
	}
	view := records.View(a.Names, a.targets(), adopted)
	for _, c := range view.Conflicts() {
		f.problem("%s", c.Error())
	}
	for _, d := range view.Drifts() {
		f.noteDrift(d)
	}
	switch {
	case view.State == records.Mixed:
		f.problem("the names are on different paths, bring them onto one: %s", strings.Join(places(view), ", "))
	case view.Path >= 0:
		f.On = pathName(view.Path)
	}
}

// noteDrift says what the watchdog will mend once it may write.
func (f *Findings) noteDrift(d records.Drift) {
	switch d.What {
	case records.Missing:
		f.note("%s has no %s record; the watchdog creates it with %s", d.Name, d.Type, d.Want)
	case records.Extra:
		f.note("%s %s %s: the watchdog takes it away", d.Name, d.Type, d.Got)
	default:
		f.note("%s %s: %s is %s; the watchdog makes it %s", d.Name, d.Type, d.What, d.Got, d.Want)
	}
}

// adopt returns a record of a name that moves as it will be with our marker, and
// false if it may not get one.
func (f *Findings) adopt(a Answers, r records.Record) (records.Record, bool) {
	if r.Owned() || r.Type != records.A && r.Type != records.AAAA {
		return r, true
	}
	// Once adopted it would be taken away or overwritten, as no path has it.
	if addr, _ := r.Address(); r.Type == records.AAAA && addr.String() != a.Relay6 {
		f.problem("%s: AAAA record %s is in the way: remove it, or set --relay6 if it is the relay's", r.Name, r.Content)
		return r, false
	}
	f.Adopt = append(f.Adopt, r)
	r.Comment = records.Word
	return r, true
}

// places says where each name is.
func places(view records.Site) []string {
	var list []string
	for _, n := range view.Names {
		where := n.State.String()
		if n.Path >= 0 {
			where = "on " + pathName(n.Path)
		}
		list = append(list, fmt.Sprintf("%s is %s", n.Name, where))
	}
	return list
}

func pathName(i int) string { return []string{relayPath, proxyPath}[i] }

// judgeCanary wants one record at the canary: what is tested there has to be what
// visitors of the proxied path get.
func (f *Findings) judgeCanary(a Answers, found []records.Record) {
	var list []records.Record
	for _, r := range found {
		if r.Name == a.Canary && slices.Contains([]string{records.A, records.AAAA, records.CNAME, records.HTTPS, records.SVCB}, r.Type) {
			list = append(list, r)
		}
	}
	want := fmt.Sprintf("want one A record %s, proxied", a.Home)
	if len(list) == 0 {
		f.problem("the canary %s has no record: %s", a.Canary, want)
	}
	for _, r := range list {
		addr, fits := r.Address()
		switch {
		case r.Type != records.A || !fits:
			f.problem("the canary %s has a record %s %s: %s", a.Canary, r.Type, r.Content, want)
		case addr.String() != a.Home:
			f.problem("the canary %s is at %s: %s", a.Canary, r.Content, want)
		case !r.Proxied:
			f.problem("the canary %s is not proxied: %s", a.Canary, want)
		}
	}
	if len(list) > 1 {
		f.problem("the canary %s has %d records: %s", a.Canary, len(list), want)
	}
}

// judgeCertificates warns of names that Cloudflare has no certificate for by default:
// its universal certificate is for the zone and one label below.
func (f *Findings) judgeCertificates(a Answers) {
	if f.Zone.Name == "" {
		return
	}
	for _, name := range append(slices.Clone(a.Names), a.Canary) {
		if name == f.Zone.Name {
			continue
		}
		if _, parent, _ := strings.Cut(name, "."); parent != f.Zone.Name {
			f.note("%s is more than one label below %s: Cloudflare's universal certificate does not cover it", name, f.Zone.Name)
		}
	}
}
