package fakecloudflare

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// json is a zone as the API shows it.
func (z *zone) json() map[string]any {
	return map[string]any{
		"id": z.ID, "name": z.Name, "status": "active", "paused": false, "type": "full", "name_servers": z.NameServers,
		"development_mode": 0, "original_name_servers": nil, "original_registrar": nil, "original_dnshost": nil,
		"account": map[string]any{"id": digest("account"), "name": "Fake"}, "owner": map[string]any{"id": nil, "type": "user", "email": nil},
		"meta": map[string]any{}, "plan": map[string]any{"legacy_id": "free"}, "permissions": []string{"#dns_records:edit", "#dns_records:read", "#zone:read"},
		"created_on": "2024-01-01T00:00:00Z", "modified_on": "2024-01-01T00:00:00Z", "activated_on": "2024-01-01T00:00:00Z",
	}
}

func (s *Server) listZones(req Request) reply {
	list := []any{}
	for _, z := range s.zones {
		if name := req.Query.Get("name"); s.tokenOf(z) == req.token && (name == "" || strings.EqualFold(name, z.Name)) {
			list = append(list, z.json())
		}
	}
	return paged(req.Query, list, 20, 50)
}

// listRecords answers a list of records, filtered, ordered and paged.
func (z *zone) listRecords(q url.Values, list []*stored) (any, error) {
	filters, err := parseFilters(q)
	if err != nil {
		return nil, err
	}
	found := []*stored{}
	for _, r := range list {
		if matches(r, filters, q.Get("match") == "any") {
			found = append(found, r)
		}
	}
	order(found, q.Get("order"), q.Get("direction"))
	return paged(q, found, 100, 5_000_000), nil
}

// matches reports whether a record passes all filters, or any.
func matches(r *stored, filters []filter, any bool) bool {
	for _, f := range filters {
		if f(r) == any {
			return any
		}
	}
	return !any || len(filters) == 0
}

// filter reports whether a record is wanted.
type filter func(*stored) bool

func parseFilters(q url.Values) ([]filter, error) {
	var list []filter
	for key, values := range q {
		value := strings.ToLower(values[0])
		field, how, _ := strings.Cut(key, ".")
		switch field {
		case "page", "per_page", "order", "direction", "match", "tag_match":
			continue
		case "proxied":
			list = append(list, func(r *stored) bool { return strconv.FormatBool(r.Proxied) == value })
		case "type":
			list = append(list, func(r *stored) bool { return strings.EqualFold(r.Type, value) })
		case "name":
			list = append(list, textFilter(how, value, func(r *stored) string { return r.Name }))
		case "content":
			list = append(list, textFilter(how, value, func(r *stored) string { return strings.ToLower(r.Content) }))
		case "comment":
			list = append(list, textFilter(how, value, func(r *stored) string { return r.comment }))
		default:
			return nil, &apiError{status: 400, code: 9207, message: "Unknown filter " + key}
		}
		if list[len(list)-1] == nil {
			return nil, &apiError{status: 400, code: 9207, message: "Unknown filter " + key}
		}
	}
	return list, nil
}

// textFilter compares without regard to case: value and text are lower case.
func textFilter(how, value string, text func(*stored) string) filter {
	switch how {
	case "", "exact":
		return func(r *stored) bool { return text(r) == value }
	case "contains":
		return func(r *stored) bool { return strings.Contains(text(r), value) }
	case "startswith":
		return func(r *stored) bool { return strings.HasPrefix(text(r), value) }
	case "endswith":
		return func(r *stored) bool { return strings.HasSuffix(text(r), value) }
	case "present":
		return func(r *stored) bool { return text(r) != "" }
	case "absent":
		return func(r *stored) bool { return text(r) == "" }
	}
	return nil
}

func order(list []*stored, by, direction string) {
	if by == "" {
		return
	}
	key := func(r *stored) string {
		switch by {
		case "name":
			return r.Name
		case "content":
			return r.Content
		case "ttl":
			return strconv.Itoa(1e6 + r.TTL)
		case "proxied":
			return strconv.FormatBool(r.Proxied)
		}
		return r.Type
	}
	slices.SortStableFunc(list, func(a, b *stored) int {
		if direction == "desc" {
			a, b = b, a
		}
		return cmp.Compare(key(a), key(b))
	})
}

// paged answers one page of a list.
func paged[T any](q url.Values, list []T, perPage, most int) reply {
	page := 1
	if n, err := strconv.Atoi(q.Get("page")); err == nil && n > 0 {
		page = n
	}
	if n, err := strconv.Atoi(q.Get("per_page")); err == nil && n > 0 {
		perPage = min(n, most)
	}
	from := min((page-1)*perPage, len(list))
	part := list[from:min(from+perPage, len(list))]
	return answer(200, envelope{
		Success: true, Result: records(part),
		ResultInfo: &resultInfo{Page: page, PerPage: perPage, Count: len(part), TotalCount: len(list), TotalPages: (len(list) + perPage - 1) / perPage},
	})
}

// records returns what is shown of stored records, and other things as they are.
func records[T any](list []T) any {
	stored, ok := any(list).([]*stored)
	if !ok {
		return list
	}
	shown := make([]Record, len(stored))
	for i, r := range stored {
		shown[i] = r.Record
	}
	return shown
}
