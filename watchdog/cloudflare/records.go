package cloudflare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cloudflare/cloudflare-go/v4/dns"

	"github.com/edgeward/edgeward/watchdog/records"
)

// A list is read in pages of perPage, and at most maxPages of them. A record takes
// some 600 bytes, so that a page stays well below maxReply.
const (
	perPage  = 1000
	maxPages = 10
)

// Owned returns the records of a zone that carry our marker. It costs one request
// for each thousand of them, however many others the zone has. It returns all of
// them or an error, never a part.
func (c *Client) Owned(ctx context.Context, zoneID string) ([]records.Record, error) {
	var params dns.RecordListParams
	params.Comment.Present = true
	params.Comment.Value.Contains.Value, params.Comment.Value.Contains.Present = records.Word, true
	list, err := c.list(ctx, "listing our records", zoneID, params, func(records.Record) error { return nil })
	if err != nil {
		return nil, err
	}
	owned := []records.Record{}
	for _, r := range list {
		if r.Owned() { // the filter finds the marker inside of other words, too
			owned = append(owned, r)
		}
	}
	return owned, nil
}

// ByName returns the records of one name, of all types and whosever they are.
func (c *Client) ByName(ctx context.Context, zoneID, name string) ([]records.Record, error) {
	const op = "listing the records of a name"
	name, err := checkName(op, name)
	if err != nil {
		return nil, err
	}
	var params dns.RecordListParams
	params.Name.Present = true
	params.Name.Value.Exact.Value, params.Name.Value.Exact.Present = name, true
	return c.list(ctx, op, zoneID, params, func(r records.Record) error {
		if r.Name != name {
			return errors.New("the list holds records of other names")
		}
		return nil
	})
}

// list reads all pages of a list. Each record has to pass check.
func (c *Client) list(ctx context.Context, op, zoneID string, params dns.RecordListParams, check func(records.Record) error) ([]records.Record, error) {
	if err := checkID(op, zoneID); err != nil {
		return nil, err
	}
	params.ZoneID.Value, params.ZoneID.Present = zoneID, true
	params.Order.Value, params.Order.Present = dns.RecordListParamsOrderName, true
	params.PerPage.Value, params.PerPage.Present = perPage, true
	p := pages{seen: map[string]bool{}, list: []records.Record{}}
	for !p.complete {
		params.Page.Value, params.Page.Present = float64(p.read+1), true
		err := c.do(ctx, op, scope{zone: zoneID}, func(ctx context.Context) error {
			_, err := c.records.List(ctx, params)
			return err
		}, func(reply envelope) error { return p.add(reply, check) })
		if err != nil {
			return nil, err
		}
	}
	return p.list, nil
}

// pages puts a list together. Whatever does not fit is an error: half a list looks
// like records that somebody has deleted.
type pages struct {
	list     []records.Record
	seen     map[string]bool // ids
	read     int
	total    int
	perPage  int
	complete bool
}

func (p *pages) add(reply envelope, check func(records.Record) error) error {
	list, err := decodeRecords(reply.Result)
	if err != nil {
		return err
	}
	if err := p.turn(reply.Info, len(list)); err != nil {
		return err
	}
	for _, r := range list {
		if p.seen[r.ID] {
			return errors.New("the list holds a record twice")
		}
		p.seen[r.ID] = true
		if err := check(r); err != nil {
			return err
		}
	}
	p.list = append(p.list, list...)
	p.complete = len(p.list) == p.total
	return nil
}

// turn checks that the next page is the one that was asked for.
func (p *pages) turn(info *pageInfo, count int) error {
	if info == nil || info.Page == nil || info.PerPage == nil || info.Count == nil || info.TotalCount == nil {
		return errors.New("the list does not say how long it is")
	}
	if p.read == 0 {
		p.total, p.perPage = *info.TotalCount, *info.PerPage
	}
	p.read++
	switch {
	case p.perPage < 1, p.perPage > perPage, p.total < 0:
		return errors.New("the length of the list is impossible")
	case *info.Page != p.read, *info.PerPage != p.perPage, *info.Count != count:
		return errors.New("the page is not the one asked for")
	case *info.TotalCount != p.total:
		return errors.New("the list changed while it was read")
	case p.total > maxPages*p.perPage:
		return fmt.Errorf("the list holds more than %d records", maxPages*p.perPage)
	case count != min(p.perPage, p.total-len(p.list)):
		return errors.New("the page is not as long as it has to be")
	case info.TotalPages != nil && *info.TotalPages != (p.total+p.perPage-1)/p.perPage && p.total > 0:
		return errors.New("the number of pages does not fit the length of the list")
	}
	return nil
}

// wireRecord is a record in a reply. What is missing or null stays nil.
type wireRecord struct {
	ID       *string    `json:"id"`
	Name     *string    `json:"name"`
	Type     *string    `json:"type"`
	Content  *string    `json:"content"`
	TTL      *int       `json:"ttl"`
	Proxied  *bool      `json:"proxied"`
	Comment  *string    `json:"comment"`
	Modified *time.Time `json:"modified_on"`
}

var errRecord = errors.New("a record lacks a field, or has it in another type")

// decodeRecords reads a list of records. The fields that addresses have are asked
// of addresses only: nothing else depends on them.
func decodeRecords(raw json.RawMessage) ([]records.Record, error) {
	var wire []wireRecord
	if err := json.Unmarshal(raw, &wire); err != nil {
		return nil, errRecord
	}
	list := make([]records.Record, 0, len(wire))
	for _, w := range wire {
		if w.ID == nil || !isID(*w.ID) || w.Name == nil || *w.Name == "" || w.Type == nil || *w.Type == "" {
			return nil, errRecord
		}
		r := records.Record{ID: *w.ID, Name: records.Name(*w.Name), Type: *w.Type}
		if r.Type == records.A || r.Type == records.AAAA {
			if w.Content == nil || w.TTL == nil || *w.TTL < 1 || w.Proxied == nil {
				return nil, errRecord
			}
		}
		fill(&r.Content, w.Content)
		fill(&r.TTL, w.TTL)
		fill(&r.Proxied, w.Proxied)
		fill(&r.Comment, w.Comment)
		fill(&r.Modified, w.Modified)
		list = append(list, r)
	}
	return list, nil
}

func fill[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
