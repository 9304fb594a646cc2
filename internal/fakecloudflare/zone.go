package fakecloudflare

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"
)

// zone is a zone with what it has published. Guarded by Server.mu.
type zone struct {
	Zone
	list   []*stored // in the order of their creation
	byID   map[string]*stored
	byName map[string][]*stored
	past   map[string][]version // per name, oldest first
}

// stored is a record, never changed once stored: a change stores another one.
type stored struct {
	Record
	comment string // lower case, for the filters
	seq     uint64
}

// version is what a name held from a time on.
type version struct {
	since   time.Time
	records []*stored
}

// keep is how many old versions of a name are kept for slow propagation.
const keep = 16

func (s *Server) addZone(z Zone) error {
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(z.Name, "."))
	if err != nil || name == "" {
		return fmt.Errorf("zone name %q: %w", z.Name, err)
	}
	z.Name = name
	if z.ID == "" {
		z.ID = digest("zone " + name)
	}
	if !isID(z.ID) {
		return fmt.Errorf("zone %s: id %q is not 32 hexadecimal digits", name, z.ID)
	}
	if len(z.NameServers) == 0 {
		z.NameServers = []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}
	}
	records := z.Records
	z.Records = nil
	stored := &zone{Zone: z, byID: map[string]*stored{}, byName: map[string][]*stored{}, past: map[string][]version{}}
	s.zones = append(s.zones, stored)
	s.tokens[s.tokenOf(stored)] = Token{Status: "active"}
	for _, r := range records {
		if _, err := s.put(stored, r); err != nil {
			return err
		}
	}
	return nil
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func isID(id string) bool {
	return len(id) == 32 && !strings.ContainsFunc(id, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// ZoneID returns the id of a zone by its name, or "".
func (s *Server) ZoneID(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if z := s.zoneBy(name); z != nil {
		return z.ID
	}
	return ""
}

// zoneBy finds a zone by id or name.
func (s *Server) zoneBy(key string) *zone {
	for _, z := range s.zones {
		if z.ID == key || z.Name == key {
			return z
		}
	}
	return nil
}

// Put creates a record, or replaces the one with the same ID, as somebody else
// would do: without a request and without the API's checks of other records. It
// returns the ID. An unknown zone is the caller's mistake and panics.
func (s *Server) Put(zoneName string, r Record) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := s.put(s.mustZone(zoneName), r)
	if err != nil {
		panic(err)
	}
	return id
}

func (s *Server) mustZone(name string) *zone {
	z := s.zoneBy(name)
	if z == nil {
		panic("fakecloudflare: no zone " + name)
	}
	return z
}

func (s *Server) put(z *zone, r Record) (string, error) {
	old := z.byID[r.ID]
	if r.ID == "" {
		r.ID = s.newID()
	}
	if r.TTL == 0 {
		r.TTL = 1
	}
	if err := s.normalise(z, &r); err != nil {
		return "", err
	}
	if old != nil {
		r.CreatedOn = old.CreatedOn
	}
	z.set(s, r)
	return r.ID, nil
}

// Remove deletes a record, as somebody else would do.
func (s *Server) Remove(zoneName, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	z := s.mustZone(zoneName)
	if r := z.byID[id]; r != nil {
		z.remove(r)
	}
}

// Records returns the records of a zone in the order of their creation.
func (s *Server) Records(zoneName string) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Record
	for _, r := range s.mustZone(zoneName).list {
		list = append(list, r.Record)
	}
	return list
}

// Dump returns all records of all zones, one JSON object a line, in an order that
// depends on nothing but them: two dumps are equal if nothing has changed.
func (s *Server) Dump() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, z := range s.zones {
		for _, r := range z.list {
			line, err := json.Marshal(r.Record)
			if err != nil {
				panic(err) // strings, numbers and times
			}
			lines = append(lines, strings.Join([]string{z.Name, r.Name, r.Type, r.ID, string(line)}, " "))
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "\n"))
}

func (s *Server) newID() string {
	s.nextID++
	return digest(fmt.Sprint("record ", s.nextID))
}

// set stores a record in place of the one with its ID, if there is one, and
// returns what takes that back.
func (z *zone) set(s *Server, r Record) (undo func()) {
	old := z.byID[r.ID]
	n := &stored{Record: r}
	if r.Comment != nil {
		n.comment = strings.ToLower(*r.Comment)
	}
	if old == nil {
		s.nextID++
		n.seq = s.nextID
		z.insert(n)
		return func() { z.remove(n) }
	}
	n.seq = old.seq
	z.swap(old, n)
	return func() { z.swap(n, old) }
}

func (z *zone) swap(old, n *stored) {
	z.list[z.index(old)] = n
	z.byID[n.ID] = n
	z.unname(old)
	z.name(n)
	z.publish(old.Name)
	z.publish(n.Name)
}

// remove deletes a record and returns what takes that back.
func (z *zone) remove(r *stored) (undo func()) {
	i := z.index(r)
	z.list = slices.Delete(z.list, i, i+1)
	delete(z.byID, r.ID)
	z.unname(r)
	z.publish(r.Name)
	return func() { z.insert(r) }
}

func (z *zone) insert(r *stored) {
	i, _ := slices.BinarySearchFunc(z.list, r.seq, bySeq)
	z.list = slices.Insert(z.list, i, r)
	z.byID[r.ID] = r
	z.name(r)
	z.publish(r.Name)
}

func (z *zone) index(r *stored) int {
	i, _ := slices.BinarySearchFunc(z.list, r.seq, bySeq)
	return i
}

func bySeq(r *stored, seq uint64) int {
	if r.seq < seq {
		return -1
	} else if r.seq > seq {
		return 1
	}
	return 0
}

func (z *zone) name(r *stored) {
	list := append(slices.Clone(z.byName[r.Name]), r)
	slices.SortFunc(list, func(a, b *stored) int { return bySeq(a, b.seq) })
	z.byName[r.Name] = list
}

func (z *zone) unname(r *stored) {
	list := slices.DeleteFunc(slices.Clone(z.byName[r.Name]), func(other *stored) bool { return other == r })
	if len(list) == 0 {
		delete(z.byName, r.Name)
	} else {
		z.byName[r.Name] = list
	}
}

// publish notes what a name holds from now on. Two changes at one time are one.
func (z *zone) publish(name string) {
	now := time.Now()
	past := z.past[name]
	if last := len(past) - 1; last >= 0 && past[last].since.Equal(now) {
		past = past[:last]
	}
	if len(past) >= keep {
		past = slices.Delete(past, 0, len(past)-keep+1)
	}
	z.past[name] = append(past, version{now, z.byName[name]})
}

// at returns what a name held at a time; before its first version, nothing.
func (z *zone) at(name string, when time.Time) []*stored {
	for _, v := range slices.Backward(z.past[name]) {
		if !v.since.After(when) {
			return v.records
		}
	}
	return nil
}
