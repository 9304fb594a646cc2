package records

import (
	"maps"
	"slices"
)

// MaxOperations is how many operations one request may hold on Cloudflare's
// Free plan.
const MaxOperations = 200

// Batch is a set of changes. The provider does all of it or nothing, in this
// order.
type Batch struct {
	Deletes []Record
	Patches []Patch
	Posts   []Record // without an ID
}

// Patch changes one record in place and leaves alone what it does not name.
type Patch struct {
	// The record as it was: its ID is sent, and its name and type are what the
	// answer must show.
	Record Record
	// Content, proxied and TTL together. Nil leaves them.
	Value *Value
	// Empty leaves it.
	Comment string
}

// Len returns the number of operations.
func (b Batch) Len() int { return len(b.Deletes) + len(b.Patches) + len(b.Posts) }

// Split returns the batch in parts of at most limit operations. What belongs to
// one name stays in one part, so that no name is half changed; a name never
// needs more than two.
func (b Batch) Split(limit int) []Batch {
	byName := map[string]Batch{}
	for _, r := range b.Deletes {
		part := byName[r.Name]
		part.Deletes = append(part.Deletes, r)
		byName[r.Name] = part
	}
	for _, p := range b.Patches {
		part := byName[p.Record.Name]
		part.Patches = append(part.Patches, p)
		byName[p.Record.Name] = part
	}
	for _, r := range b.Posts {
		part := byName[r.Name]
		part.Posts = append(part.Posts, r)
		byName[r.Name] = part
	}
	var parts []Batch
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		more := byName[name]
		if last := len(parts) - 1; last >= 0 && parts[last].Len()+more.Len() <= limit {
			parts[last].add(more)
		} else {
			parts = append(parts, more)
		}
	}
	return parts
}

func (b *Batch) add(more Batch) {
	b.Deletes = append(b.Deletes, more.Deletes...)
	b.Patches = append(b.Patches, more.Patches...)
	b.Posts = append(b.Posts, more.Posts...)
}
