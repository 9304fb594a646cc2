package runtime

import (
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
)

// Stat is how one server does.
type Stat struct {
	Backend, Server string
	Status          string // like "UP", "DRAIN", "MAINT", "no check"
	Weight          int    // what it has now: less than its own while it starts slowly
	Sessions        int    // open ones
	Total           uint64 // all that it ever had
}

// Stats returns how all servers do.
func (c *Client) Stats(ctx context.Context) ([]Stat, error) {
	list, err := c.lines(ctx, "show stat -1 4 -1") // all proxies, servers only
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || !strings.HasPrefix(list[0], "# pxname,svname,") {
		return nil, c.failed(fmt.Errorf("show stat has another form: %.80q", strings.Join(list, "\n")))
	}
	list[0] = strings.TrimPrefix(list[0], "# ")
	rows, err := csv.NewReader(strings.NewReader(strings.Join(list, "\n"))).ReadAll()
	if err != nil {
		return nil, c.failed(fmt.Errorf("show stat: %w", err))
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for _, name := range []string{"status", "weight", "scur", "stot"} {
		if _, ok := column[name]; !ok {
			return nil, c.failed(fmt.Errorf("show stat has no %s", name))
		}
	}
	stats := make([]Stat, 0, len(rows)-1)
	for _, row := range rows[1:] {
		s, err := parseStat(row, column)
		if err != nil {
			return nil, c.failed(fmt.Errorf("show stat: %s/%s: %w", row[0], row[1], err))
		}
		stats = append(stats, s)
	}
	return stats, nil
}

func parseStat(row []string, column map[string]int) (s Stat, err error) {
	s.Backend, s.Server, s.Status = row[0], row[1], row[column["status"]]
	if s.Weight, err = strconv.Atoi(row[column["weight"]]); err != nil {
		return s, err
	}
	if s.Sessions, err = strconv.Atoi(row[column["scur"]]); err != nil {
		return s, err
	}
	s.Total, err = strconv.ParseUint(row[column["stot"]], 10, 64)
	return s, err
}
