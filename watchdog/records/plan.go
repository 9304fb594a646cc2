package records

import "fmt"

// Options of Plan and Adoption.
type Options struct {
	// Take AAAA records away even if the path has an address for them: in a total
	// outage a name with one address fails faster than one with two.
	RemoveAAAA bool
	// Create the records of a name that holds nothing at all. Default: refuse.
	Create bool
	// How many characters a comment may have. Default: MaxComment.
	MaxComment int
	// The marker of records that are created or adopted.
	Mark Mark
	// Epoch of the lease by which is written. It goes into the marker, and a record
	// with a higher one is refused: its writer has followed us. 0: there is no lease.
	Epoch uint64
}

// Plan returns what to change so that all names are on path number to, and the
// names it will not touch, with the reasons. Applied as a whole, a second Plan
// has nothing left to do.
func Plan(names []string, paths []Target, to int, actual []Record, o Options) (Batch, []Conflict) {
	target := paths[to]
	if o.RemoveAAAA {
		target.AAAA = Target{}.AAAA
	}
	var b Batch
	var refused []Conflict
	for _, n := range View(unique(names), paths, actual).Names {
		switch {
		case !target.A.IsValid() && !target.AAAA.IsValid():
			refused = append(refused, Conflict{LastAddress, Record{Name: n.Name, Type: A}, "the path has no other address: the name would be left empty"})
		case n.blocked(o):
			refused = append(refused, n.Conflicts...)
		case len(n.newer(o.Epoch)) > 0:
			refused = append(refused, n.newer(o.Epoch)...)
		default:
			n.plan(&b, target, o)
		}
	}
	return b, refused
}

// blocked reports whether a conflict forbids to touch the name.
func (n *NameView) blocked(o Options) bool {
	return len(n.Conflicts) > 0 && !(o.Create && n.Conflicts[0].Reason == Nothing)
}

// newer are conflicts with records that a later holder of the lease has written.
func (n *NameView) newer(epoch uint64) (list []Conflict) {
	for _, r := range n.records() {
		m, _ := ParseMark(r.Comment)
		if e, ok := m.Epoch(); ok && epoch > 0 && e > epoch {
			list = append(list, Conflict{HigherEpoch, r, fmt.Sprintf("it was written in epoch %d of the lease, and ours is %d: another watchdog has followed this one", e, epoch)})
		}
	}
	return list
}

// plan adds what one name needs. All its records change in the same batch: if one
// of them is proxied, Cloudflare takes all of them for proxied.
func (n *NameView) plan(b *Batch, target Target, o Options) {
	mark := o.Mark
	for _, r := range n.records() {
		if m, ok := ParseMark(r.Comment); ok {
			mark = m // a record added to a name is marked like its sibling
			break
		}
	}
	for _, kind := range []string{A, AAAA} {
		r := n.record(kind)
		want, wanted := target.value(kind)
		switch {
		case r == nil && wanted:
			comment := stamped(mark.String(), o)
			b.Posts = append(b.Posts, Record{Name: n.Name, Type: kind, Content: want.Content, TTL: want.TTL, Proxied: want.Proxied, Comment: comment})
		case r != nil && !wanted:
			b.Deletes = append(b.Deletes, *r)
		case len(compare(n.Name, kind, r, target)) > 0:
			p := Patch{Record: *r, Value: &want}
			if comment := stamped(r.Comment, o); comment != r.Comment {
				p.Comment = comment
			}
			b.Patches = append(b.Patches, p)
		}
	}
}

func stamped(comment string, o Options) string {
	if o.Epoch == 0 {
		return comment
	}
	return Stamp(comment, o.Epoch, o.MaxComment)
}

// Adoption returns what to change so that the records of the names carry the
// marker. It changes nothing else, and refuses a name that Plan could not move
// afterwards, such as one with two A records.
func Adoption(names []string, actual []Record, o Options) (Batch, []Conflict) {
	var b Batch
	var refused []Conflict
	for _, name := range unique(names) {
		n := NameView{Name: name}
		var mine []Record
		for _, r := range actual {
			if Name(r.Name) == name {
				mine = append(mine, r)
			}
		}
		n.sort(mine)
		patches := n.adopt(mine, o)
		if len(n.Conflicts) > 0 {
			refused = append(refused, n.Conflicts...)
			continue
		}
		b.Patches = append(b.Patches, patches...)
	}
	return b, refused
}

// adopt returns the patches of one name, and leaves in n.Conflicts what forbids
// them.
func (n *NameView) adopt(mine []Record, o Options) []Patch {
	var patches []Patch
	conflicts := n.Conflicts
	n.Conflicts = nil
	for _, c := range conflicts {
		if c.Reason != NotOurs && c.Reason != ForeignAAAA {
			n.Conflicts = append(n.Conflicts, c)
		}
	}
	for _, r := range mine {
		if r.Type != A && r.Type != AAAA || r.Owned() {
			continue
		}
		comment, err := Adopt(r.Comment, o.Mark, o.MaxComment)
		if err != nil {
			n.conflict(CommentFull, r, err.Error())
			continue
		}
		patches = append(patches, Patch{Record: r, Comment: comment})
	}
	return patches
}

// unique returns the names as records carry them, each once.
func unique(names []string) []string {
	var list []string
	seen := map[string]bool{}
	for _, name := range names {
		if name = Name(name); !seen[name] {
			seen[name] = true
			list = append(list, name)
		}
	}
	return list
}
