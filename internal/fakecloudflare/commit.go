package fakecloudflare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// commit carries out a request.
func (s *Server) commit(req Request, to route, f *fault) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.Call {
	case ListIPs:
		return done(ranges)
	case VerifyToken:
		return done(s.verified(req.token))
	case ListZones:
		return s.listZones(req)
	case Other:
		return refusal(&apiError{status: 400, code: 7000, message: "No route for that URI"})
	}
	z, err := s.zoneOf(to, req.token)
	if err != nil {
		return refusal(err)
	}
	result, err := s.onZone(z, req, to.record, f)
	if err != nil {
		return refusal(err)
	}
	if re, ok := result.(reply); ok {
		return re
	}
	return done(result)
}

func (s *Server) zoneOf(to route, token string) (*zone, error) {
	if !isID(to.zone) {
		return nil, &apiError{status: 404, code: 7003, message: "Could not route to " + prefix + "/zones/" + to.zone + ", perhaps your object identifier is invalid?"}
	}
	for _, z := range s.zones {
		if z.ID == to.zone && s.tokenOf(z) == token {
			return z, nil
		}
	}
	return nil, &apiError{status: 403, code: 9109, message: "Unauthorized to access requested resource"}
}

func (z *zone) record(id string) (*stored, error) {
	if !isID(id) {
		return nil, &apiError{status: 404, code: 7003, message: "Could not route to " + prefix + "/zones/" + z.ID + "/dns_records/" + id + ", perhaps your object identifier is invalid?"}
	}
	if r := z.byID[id]; r != nil {
		return r, nil
	}
	return nil, &apiError{status: 404, code: 81044, message: "Record does not exist."}
}

// onZone carries out what concerns one zone.
func (s *Server) onZone(z *zone, req Request, id string, f *fault) (any, error) {
	var undo []func()
	result, err := func() (any, error) {
		switch req.Call {
		case GetZone:
			return z.json(), nil
		case ListRecords:
			list := z.list
			if f.Do == Stale {
				list = f.frozen[z.ID]
			}
			return z.listRecords(req.Query, list)
		case GetRecord:
			r, err := z.record(id)
			if err == nil && f.Do == Stale {
				i := slices.IndexFunc(f.frozen[z.ID], func(old *stored) bool { return old.ID == id })
				if i >= 0 {
					r = f.frozen[z.ID][i]
				}
			}
			if err != nil {
				return nil, err
			}
			return r.Record, nil
		case CreateRecord:
			return s.create(z, req.Body, &undo)
		case PatchRecord:
			return s.change(z, id, req.Body, false, &undo)
		case PutRecord:
			return s.change(z, id, req.Body, true, &undo)
		case DeleteRecord:
			r, err := z.record(id)
			if err != nil {
				return nil, err
			}
			undo = append(undo, z.remove(r))
			return map[string]string{"id": id}, nil
		default:
			return s.batch(z, req.Body, &undo)
		}
	}()
	if err != nil {
		for _, back := range slices.Backward(undo) {
			back()
		}
	}
	return result, err
}

// batch does all of a batch, or as much as is to be undone.
func (s *Server) batch(z *zone, body []byte, undo *[]func()) (any, error) {
	var b struct{ Deletes, Patches, Puts, Posts []json.RawMessage }
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, badBody()
	}
	if n := len(b.Deletes) + len(b.Patches) + len(b.Puts) + len(b.Posts); n > maxBatch || n == 0 {
		return nil, &apiError{status: 400, code: 81026, message: fmt.Sprintf("A batch holds 1 to %d operations, not %d.", maxBatch, n)}
	}
	result := map[string][]any{"deletes": {}, "patches": {}, "puts": {}, "posts": {}}
	do := func(kind string, list []json.RawMessage, f func(id string, body []byte) (any, error)) error {
		for _, one := range list {
			var ref struct{ ID string }
			if json.Unmarshal(one, &ref) != nil {
				return badBody()
			}
			done, err := f(ref.ID, one)
			if err != nil {
				return err
			}
			result[kind] = append(result[kind], done)
		}
		return nil
	}
	for _, step := range []func() error{
		func() error {
			return do("deletes", b.Deletes, func(id string, _ []byte) (any, error) {
				r, err := z.record(id)
				if err != nil {
					return nil, err
				}
				*undo = append(*undo, z.remove(r))
				return r.Record, nil
			})
		},
		func() error {
			return do("patches", b.Patches, func(id string, body []byte) (any, error) { return s.change(z, id, body, false, undo) })
		},
		func() error {
			return do("puts", b.Puts, func(id string, body []byte) (any, error) { return s.change(z, id, body, true, undo) })
		},
		func() error {
			return do("posts", b.Posts, func(_ string, body []byte) (any, error) { return s.create(z, body, undo) })
		},
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// fields are what a request may say of a record.
type fields struct {
	Name, Type, Content *string
	TTL                 *int
	Priority            *int
	Proxied             *bool
	Comment             *string
	Tags                *[]string
	Settings            *Settings
}

func badBody() error {
	return &apiError{status: 400, code: 9207, message: "Request body is invalid."}
}

// read lays what a body says over a record.
func read(body []byte, r *Record) error {
	var f fields
	var raw map[string]json.RawMessage
	if json.Unmarshal(body, &f) != nil || json.Unmarshal(body, &raw) != nil {
		return badBody()
	}
	set(&r.Name, f.Name)
	set(&r.Type, f.Type)
	set(&r.Content, f.Content)
	set(&r.TTL, f.TTL)
	set(&r.Proxied, f.Proxied)
	set(&r.Tags, f.Tags)
	set(&r.Settings, f.Settings)
	if f.Priority != nil {
		r.Priority = f.Priority
	}
	if comment, said := raw["comment"]; said {
		r.Comment = f.Comment
		if bytes.Equal(comment, []byte("null")) {
			r.Comment = nil
		}
	}
	if len(r.Tags) > 0 && f.Tags != nil {
		return chained(9300, fmt.Sprintf("DNS record has %d tags, exceeding the quota of 0.", len(r.Tags)))
	}
	return nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *Server) create(z *zone, body []byte, undo *[]func()) (any, error) {
	r := Record{TTL: 1}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	r.ID = s.newID()
	return s.store(z, r, undo)
}

// change patches a record, or overwrites it, so that what is not said goes back
// to its default.
func (s *Server) change(z *zone, id string, body []byte, overwrite bool, undo *[]func()) (any, error) {
	old, err := z.record(id)
	if err != nil {
		return nil, err
	}
	r := old.Record
	if overwrite {
		r = Record{TTL: 1}
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	if r.Type != old.Type && !overwrite {
		return nil, chained(9004, "The type of a record cannot be changed.")
	}
	r.ID, r.CreatedOn = id, old.CreatedOn
	return s.store(z, r, undo)
}

func (s *Server) store(z *zone, r Record, undo *[]func()) (any, error) {
	if err := s.normalise(z, &r); err != nil {
		return nil, err
	}
	if err := z.clash(r); err != nil {
		return nil, err
	}
	*undo = append(*undo, z.set(s, r))
	return r, nil
}

// ranges is the answer of /ips; a client embeds its own copy.
var ranges = map[string]any{
	"ipv4_cidrs": []string{
		"173.245.48.0/20", "103.21.244.0/22", "103.22.200.0/22", "103.31.4.0/22", "141.101.64.0/18", "108.162.192.0/18",
		"190.93.240.0/20", "188.114.96.0/20", "197.234.240.0/22", "198.41.128.0/17", "162.158.0.0/15", "104.16.0.0/13",
		"104.24.0.0/14", "172.64.0.0/13", "131.0.72.0/22",
	},
	"ipv6_cidrs": []string{
		"2400:cb00::/32", "2606:4700::/32", "2803:f800::/32", "2405:b500::/32", "2405:8100::/32", "2a06:98c0::/29", "2c0f:f248::/32",
	},
	"etag": "38f79d050aa027e3be3865e495dcc9bc",
}
