package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
)

// Members is what replaces the members of a pool. An array alone does, too.
type Members struct {
	Members []pool.Member `json:"members"`
}

// UnmarshalJSON takes the array too.
func (m *Members) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return strictly(data, &m.Members)
	}
	type plain Members
	return strictly(data, (*plain)(m))
}

// strictly is for UnmarshalJSON, which does not hear of DisallowUnknownFields.
func strictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// MemberChange puts one gateway into a pool, or changes it there.
type MemberChange struct {
	Gateway string `json:"gateway"`
	// Weight is its share, 1 to 256. Default: 1, or what it is.
	Weight int `json:"weight,omitzero"`
	// Priority is its place, from 1. Default: the last, or what it is.
	Priority int `json:"priority,omitzero"`
}

func noMember(pool, gateway string) *Problem {
	return problem(http.StatusNotFound, catalog.MemberNotFound, "gateway %s is not in pool %s", gateway, pool)
}

func listMembers(c *call) error {
	p, ok := c.scene().pool(c.name())
	if !ok {
		return noPool(c.name())
	}
	return c.one(p.revision(), p.Members)
}

func putMembers(c *call) error {
	var sent Members
	if err := body(c, &sent); err != nil {
		return err
	}
	if sent.Members == nil {
		return problem(http.StatusBadRequest, catalog.ItemsRequired, "want an array of members, or an object with one").at("members")
	}
	return c.editPool(func(now *catalog.Catalog, _ catalog.Pool) (*catalog.Catalog, []event.Event, error) {
		return now.SetMembers(c.name(), sent.Members)
	}, listMembers)
}

func addMember(c *call) error {
	var sent MemberChange
	if err := body(c, &sent); err != nil {
		return err
	}
	if err := sent.check(); err != nil {
		return err
	}
	at := sent.Priority - 1 // -1: the last
	return c.editPool(func(now *catalog.Catalog, _ catalog.Pool) (*catalog.Catalog, []event.Event, error) {
		return now.AddMember(c.name(), pool.Member{Gateway: sent.Gateway, Weight: sent.Weight}, at)
	}, func(c *call) error {
		c.w.Header().Set("Location", "/edge/pools/"+url.PathEscape(c.name())+"/members/"+url.PathEscape(sent.Gateway))
		return listMembers(c)
	})
}

func (m MemberChange) check() error {
	if m.Priority < 0 || m.Priority > pool.MaxMembers {
		return problem(http.StatusBadRequest, catalog.InvalidSetting, "priority is %d: want 1 to %d", m.Priority, pool.MaxMembers).at("priority")
	}
	return nil
}

// memberOf finds the gateway that the path names among a pool's members.
func (c *call) memberOf(p catalog.Pool) (int, error) {
	gateway := c.r.PathValue("gateway")
	i := slices.IndexFunc(p.Members, func(m pool.Member) bool { return m.Gateway == gateway })
	if i < 0 {
		return i, noMember(c.name(), gateway)
	}
	return i, nil
}

func getMember(c *call) error {
	p, ok := c.scene().pool(c.name())
	if !ok {
		return noPool(c.name())
	}
	i := p.Index(c.r.PathValue("gateway"))
	if i < 0 {
		return noMember(c.name(), c.r.PathValue("gateway"))
	}
	return c.one(p.revision(), p.Members[i])
}

func putMember(c *call) error {
	var sent MemberChange
	if err := body(c, &sent); err != nil {
		return err
	}
	if err := sent.check(); err != nil {
		return err
	}
	if err := sameName(&sent.Gateway, c.r.PathValue("gateway")); err != nil {
		return err
	}
	return c.editPool(func(now *catalog.Catalog, was catalog.Pool) (*catalog.Catalog, []event.Event, error) {
		i, err := c.memberOf(was)
		if err != nil {
			return nil, nil, err
		}
		return now.SetMembers(c.name(), sent.within(was.Members, i))
	}, listMembers)
}

// within returns the members with the change made to the i-th.
func (m MemberChange) within(was []pool.Member, i int) []pool.Member {
	member := was[i]
	if m.Weight != 0 {
		member.Weight = m.Weight
	}
	at := i
	if m.Priority != 0 {
		at = min(m.Priority, len(was)) - 1
	}
	next := slices.Delete(slices.Clone(was), i, i+1)
	return slices.Insert(next, at, member)
}

func deleteMember(c *call) error {
	return c.editPool(func(now *catalog.Catalog, was catalog.Pool) (*catalog.Catalog, []event.Event, error) {
		if _, err := c.memberOf(was); err != nil {
			return nil, nil, err
		}
		return now.RemoveMember(c.name(), c.r.PathValue("gateway"))
	}, (*call).done)
}
