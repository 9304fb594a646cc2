package ddns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/watchdog/records"
)

// known says what is known of one family of this home's addresses.
type known uint8

const (
	unsure known = iota // it was not found out
	here                // it is this one
	none                // there is none, or it is not to be published
)

// want is what the records of each name are to hold.
type want struct {
	a, aaaa           netip.Addr
	knownA, knownAAAA known
	proxied           bool
	ttl               int
	stamp             Stamp
	adopt             bool // take over records that nobody has marked
	limit             int  // characters of a comment
}

// outcome is what to do about the records there are.
type outcome struct {
	batch   records.Batch
	refused []records.Conflict
	newer   uint64 // the epoch by which somebody else writes, if it is higher than ours
	stale   int    // records that a former holder wrote
}

// plan compares the records with what is wanted. If anybody has written with a higher
// epoch, nothing at all is to be done.
func plan(names []string, actual []records.Record, w want) outcome {
	var o outcome
	for _, name := range names {
		var mine []records.Record
		for _, r := range actual {
			if records.Name(r.Name) == name {
				mine = append(mine, r)
			}
		}
		o.name(name, mine, w)
	}
	if o.newer > 0 {
		return outcome{newer: o.newer, stale: o.stale}
	}
	return o
}

// name adds what one name needs, or why it is not touched.
func (o *outcome) name(name string, actual []records.Record, w want) {
	var conflicts []records.Conflict
	byType := map[string][]records.Record{}
	for _, r := range actual {
		if s, _, ok := ParseComment(r.Comment); ok && s.Home == w.stamp.Home {
			if s.Epoch > w.stamp.Epoch {
				o.newer = max(o.newer, s.Epoch)
			}
			if s.Epoch < w.stamp.Epoch {
				o.stale++
			}
		}
		if c, ok := conflictOf(r, w); ok {
			conflicts = append(conflicts, c)
		}
		byType[r.Type] = append(byType[r.Type], r)
	}
	var b records.Batch
	for _, f := range []struct {
		kind  string
		addr  netip.Addr
		known known
	}{{records.A, w.a, w.knownA}, {records.AAAA, w.aaaa, w.knownAAAA}} {
		keep, extra, several := pick(byType[f.kind], f.addr, w)
		conflicts = append(conflicts, several...)
		b.Deletes = append(b.Deletes, extra...)
		conflicts = append(conflicts, family(&b, name, f.kind, keep, f.addr, f.known, w)...)
	}
	if len(conflicts) > 0 {
		o.refused = append(o.refused, conflicts...)
		return
	}
	o.batch.Deletes = append(o.batch.Deletes, b.Deletes...)
	o.batch.Patches = append(o.batch.Patches, b.Patches...)
	o.batch.Posts = append(o.batch.Posts, b.Posts...)
}

// conflictOf says why a record must not be touched.
func conflictOf(r records.Record, w want) (records.Conflict, bool) {
	s, _, stamped := ParseComment(r.Comment)
	switch {
	case r.Type == records.CNAME, r.Type == records.HTTPS, r.Type == records.SVCB:
		return records.Conflict{Reason: records.ForeignType, Record: r, Advice: "remove it: it leads visitors past the A record"}, true
	case r.Type != records.A && r.Type != records.AAAA:
		return records.Conflict{}, false
	case stamped && s.Home != w.stamp.Home:
		return records.Conflict{Reason: records.NotOurs, Record: r, Advice: fmt.Sprintf("it is part of the domain of home %s: one name belongs to one home", s.Home)}, true
	case !r.Owned() && !w.adopt && r.Type == records.AAAA:
		return records.Conflict{Reason: records.ForeignAAAA, Record: r, Advice: "adopt it, or remove it"}, true
	case !r.Owned() && !w.adopt:
		return records.Conflict{Reason: records.NotOurs, Record: r, Advice: "adopt it"}, true
	}
	return records.Conflict{}, false
}

// pick finds the one record of a type to keep. Two writers that both found a name empty
// have made two; one that no updater has stamped is somebody's intent.
func pick(list []records.Record, addr netip.Addr, w want) (keep *records.Record, extra []records.Record, several []records.Conflict) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	best := slices.IndexFunc(list, func(r records.Record) bool {
		got, ok := r.Address()
		return ok && got == addr
	})
	best = max(best, 0)
	for i, r := range list {
		s, _, stamped := ParseComment(r.Comment)
		if i == best {
			continue
		}
		if stamped && s.Home == w.stamp.Home {
			extra = append(extra, r)
			continue
		}
		reason := records.SeveralA
		if r.Type == records.AAAA {
			reason = records.SeveralAAAA
		}
		several = append(several, records.Conflict{Reason: reason, Record: r, Advice: "leave one"})
	}
	return &list[best], extra, several
}

// family adds what one type of one name needs.
func family(b *records.Batch, name, kind string, r *records.Record, addr netip.Addr, k known, w want) []records.Conflict {
	value := records.Value{Content: addr.String(), Proxied: w.proxied, TTL: w.ttl}
	if w.proxied {
		value.TTL = records.AutoTTL
	}
	if r == nil {
		if k == here {
			b.Posts = append(b.Posts, records.Record{
				Name: name, Type: kind, Content: value.Content, TTL: value.TTL, Proxied: value.Proxied, Comment: w.stamp.String(),
			})
		}
		return nil
	}
	if k == none || k == unsure && w.misleads(*r, kind) {
		b.Deletes = append(b.Deletes, *r)
		return nil
	}
	comment, err := FormatComment(r.Comment, w.stamp, w.limit)
	if err != nil && !r.Owned() {
		return []records.Conflict{{Reason: records.CommentFull, Record: *r, Advice: err.Error()}}
	}
	if err != nil {
		// The domain must not stay where it is for want of a digit.
		comment = w.stamp.String()
	}
	p := records.Patch{Record: *r}
	if k == here && !shows(*r, value) {
		p.Value = &value
	}
	if p.Value != nil || comment != r.Comment {
		p.Comment = comment // always with a value: a write that is late shows whose it is
		b.Patches = append(b.Patches, p)
	}
	return nil
}

// misleads reports whether an AAAA record leads to another home, while we do not know
// of an IPv6 address of our own: visitors are better off with the A record alone.
func (w want) misleads(r records.Record, kind string) bool {
	s, _, stamped := ParseComment(r.Comment)
	return kind == records.AAAA && w.knownA == here && stamped && s.By != w.stamp.By
}

// shows compares addresses and not their spelling. A proxied record has no TTL of its
// own.
func shows(r records.Record, v records.Value) bool {
	got, ok := r.Address()
	addr, err := netip.ParseAddr(v.Content)
	return ok && err == nil && got == addr && r.Proxied == v.Proxied && (v.Proxied || r.TTL == v.TTL)
}

// describe says in one line what is not touched.
func describe(refused []records.Conflict) string {
	list := make([]string, len(refused))
	for i, c := range refused {
		list[i] = c.Error()
	}
	return strings.Join(list, "; ")
}
