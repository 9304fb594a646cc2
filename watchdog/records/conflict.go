package records

import "fmt"

// Reason why a name is not touched.
type Reason string

// The reasons.
const (
	// ForeignType: a CNAME, HTTPS or SVCB record at the name.
	ForeignType Reason = "foreign_type"
	// NotOurs: the A record has no marker.
	NotOurs Reason = "not_ours"
	// ForeignAAAA: an AAAA record without a marker.
	ForeignAAAA Reason = "foreign_aaaa"
	// SeveralA and SeveralAAAA: more than one record of the type.
	SeveralA    Reason = "several_a"
	SeveralAAAA Reason = "several_aaaa"
	// ForeignContent: ours, with an address that is on none of the paths.
	ForeignContent Reason = "foreign_content"
	// ProxiedElsewhere: proxied, at the address of a DNS-only path.
	ProxiedElsewhere Reason = "proxied_at_dns_only_path"
	// MissingA: an AAAA record and no A record.
	MissingA Reason = "missing_a"
	// Nothing: the name has no record at all.
	Nothing Reason = "nothing"
	// Malformed: the content is no address.
	Malformed Reason = "malformed"
	// LastAddress: the change would leave the name empty.
	LastAddress Reason = "last_address"
	// CommentFull: the marker does not fit into the comment.
	CommentFull Reason = "comment_full"
	// HigherEpoch: a later holder of the lease has written it.
	HigherEpoch Reason = "higher_epoch"
)

var advice = map[Reason]string{
	ForeignContent:   "its address is on none of the paths: add the path, or correct the record",
	ProxiedElsewhere: "the path with its address is DNS-only: switch its proxy off",
}

// Conflict is one record that keeps a name from being touched.
type Conflict struct {
	Reason Reason
	// The record, as far as there is one.
	Record Record
	// What to do about it.
	Advice string
}

// Error returns the conflict as a sentence.
func (c Conflict) Error() string {
	r := c.Record
	if r.Content == "" {
		return fmt.Sprintf("%s: no usable %s record (%s): %s", r.Name, r.Type, c.Reason, c.Advice)
	}
	return fmt.Sprintf("%s: %s record %s (%s): %s", r.Name, r.Type, r.Content, c.Reason, c.Advice)
}

func (n *NameView) conflict(reason Reason, r Record, advice string) {
	n.Conflicts = append(n.Conflicts, Conflict{Reason: reason, Record: r, Advice: advice})
}
