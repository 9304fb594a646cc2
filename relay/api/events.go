package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/store"
)

const (
	fewEvents  = 100
	mostEvents = 1000
	maxKinds   = 64
)

// eventQuery reads the filters of a request.
func (c *call) eventQuery() (q store.EventQuery, err error) {
	if q.After, err = c.number("after", 0); err != nil {
		return q, err
	}
	if q.Before, err = c.number("before", 0); err != nil {
		return q, err
	}
	limit, err := c.number("limit", fewEvents)
	if err != nil {
		return q, err
	}
	if limit < 1 || limit > mostEvents {
		return q, problem(http.StatusBadRequest, parameterInvalid, "limit=%d: want 1 to %d", limit, mostEvents).at("limit")
	}
	q.Limit = int(limit)
	query := c.r.URL.Query()
	q.Gateway, q.Pool, q.Route = query.Get("gateway"), query.Get("pool"), query.Get("route")
	for _, list := range query["kind"] {
		for kind := range strings.SplitSeq(list, ",") {
			if kind != "" {
				q.Kinds = append(q.Kinds, event.Kind(kind))
			}
		}
	}
	if len(q.Kinds) > maxKinds {
		return q, problem(http.StatusBadRequest, parameterInvalid, "kind has %d words: want at most %d", len(q.Kinds), maxKinds).at("kind")
	}
	return q, nil
}

// listEvents answers oldest first. A full page has a Link to the next: on from
// the last one with after, back from the first one otherwise.
func listEvents(c *call) error {
	q, err := c.eventQuery()
	if err != nil {
		return err
	}
	if c.flag("watch") {
		return watchEvents(c, q)
	}
	list, err := c.fleet.Events(c.ctx(), q)
	if err != nil {
		return err
	}
	if len(list) == q.Limit {
		c.w.Header().Set("Link", "<"+c.r.URL.Path+"?"+nextEvents(c.r.URL.Query(), q, list).Encode()+`>; rel="next"`)
	}
	if list == nil {
		list = []event.Event{}
	}
	return c.answer(list)
}

func nextEvents(query url.Values, q store.EventQuery, list []event.Event) url.Values {
	if q.After > 0 {
		query.Set("after", strconv.FormatUint(list[len(list)-1].ID, 10))
	} else {
		query.Set("before", strconv.FormatUint(list[0].ID, 10))
	}
	return query
}

// watchEvents sends each event that passes the filters, from the one after
// Last-Event-ID, or after the one that the query names, or from now on.
func watchEvents(c *call, q store.EventQuery) error {
	seen := q.After
	if text := c.r.Header.Get("Last-Event-ID"); text != "" {
		id, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return problem(http.StatusBadRequest, parameterInvalid, "Last-Event-ID is %q: want a number", text).at("Last-Event-ID")
		}
		seen = id
	}
	if seen == 0 && !c.r.URL.Query().Has("after") && c.r.Header.Get("Last-Event-ID") == "" {
		newest, err := c.fleet.Events(c.ctx(), store.EventQuery{Limit: 1})
		if err != nil {
			return err
		}
		if len(newest) > 0 {
			seen = newest[len(newest)-1].ID
		}
	}
	missed := q.After > 0 || c.r.Header.Get("Last-Event-ID") != ""
	return c.stream(func(ctx context.Context) (string, error) {
		list, err := c.news(ctx, seen, missed)
		if err != nil {
			return "", err
		}
		missed = len(list) == mostEvents
		var text strings.Builder
		for _, e := range list {
			seen = max(seen, e.ID)
			if !passes(q, e) {
				continue
			}
			data, err := json.Marshal(e)
			if err != nil {
				return "", err
			}
			text.WriteString(message(e.ID, "event", data))
		}
		if text.Len() == 0 {
			// So that a client that comes again does not ask for these once more.
			return "id: " + strconv.FormatUint(seen, 10) + "\n\n", nil
		}
		return text.String(), nil
	})
}

// news returns what came after an event: what was missed from the journal, and
// then what happens. Only some of the latest are at hand; a reader who was too
// slow for them gets the rest from the journal, too.
func (c *call) news(ctx context.Context, seen uint64, missed bool) ([]event.Event, error) {
	journal := store.EventQuery{After: seen, Limit: mostEvents}
	if missed {
		if list, err := c.fleet.Events(ctx, journal); err != nil || len(list) > 0 {
			return list, err
		}
	}
	list, err := c.fleet.WaitEvents(ctx, seen)
	if err != nil || seen == 0 || list[0].ID == seen+1 {
		return list, err
	}
	if kept, err := c.fleet.Events(ctx, journal); err != nil || len(kept) > 0 {
		return kept, err
	}
	return list, nil
}

func passes(q store.EventQuery, e event.Event) bool {
	return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) &&
		(q.Gateway == "" || q.Gateway == e.Gateway) &&
		(q.Pool == "" || q.Pool == e.Pool) &&
		(q.Route == "" || slices.Contains(e.Routes, q.Route)) &&
		(q.Before == 0 || e.ID < q.Before)
}
