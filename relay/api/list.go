package api

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
)

// page answers with a list that is sorted by name, or a part of it: up to limit of
// those after a name. A Link header has the next part (RFC 8288).
func page[T any](c *call, list []T, name func(T) string) error {
	list, err := cut(c, list, name)
	if err != nil {
		return err
	}
	return c.answer(list)
}

func cut[T any](c *call, list []T, name func(T) string) ([]T, error) {
	limit, err := c.number("limit", 0)
	if err != nil {
		return nil, err
	}
	if after := c.r.URL.Query().Get("after"); after != "" {
		i, found := slices.BinarySearchFunc(list, after, func(v T, after string) int { return cmp.Compare(name(v), after) })
		if found {
			i++
		}
		list = list[i:]
	}
	if limit > 0 && uint64(len(list)) > limit {
		list = list[:limit]
		next := url.Values{"limit": {strconv.FormatUint(limit, 10)}, "after": {name(list[limit-1])}}
		c.w.Header().Set("Link", "<"+c.r.URL.Path+"?"+next.Encode()+`>; rel="next"`)
	}
	return list, nil
}
