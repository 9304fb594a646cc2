package store

import "github.com/edgeward/edgeward/relay/catalog"

// What stands in a column has a form of its own: the API's may change, and what was
// written years ago must still be read. A duration is nanoseconds.

type checkForm struct {
	Kind       string   `json:"kind"`
	ServerName string   `json:"server_name,omitzero"`
	Roots      string   `json:"roots,omitzero"`
	Insecure   bool     `json:"insecure,omitzero"`
	Path       string   `json:"path,omitzero"`
	Host       string   `json:"host,omitzero"`
	Status     []string `json:"status,omitempty"`
	Body       string   `json:"body,omitzero"`
	Interval   int64    `json:"interval,omitzero"`
	Fast       int64    `json:"fast,omitzero"`
	Timeout    int64    `json:"timeout,omitzero"`
	Stale      int64    `json:"stale,omitzero"`
	Fall       int      `json:"fall,omitzero"`
	Rise       int      `json:"rise,omitzero"`
}

func formOfCheck(c *catalog.Check) checkForm {
	return checkForm{
		c.Kind, c.ServerName, c.Roots, c.Insecure, c.Path, c.Host, c.Status, c.Body,
		int64(c.Interval), int64(c.Fast), int64(c.Timeout), int64(c.Stale), c.Fall, c.Rise,
	}
}

func (f checkForm) check() *catalog.Check {
	return &catalog.Check{
		Kind: f.Kind, ServerName: f.ServerName, Roots: f.Roots, Insecure: f.Insecure,
		Path: f.Path, Host: f.Host, Status: f.Status, Body: f.Body,
		Interval: catalog.Duration(f.Interval), Fast: catalog.Duration(f.Fast),
		Timeout: catalog.Duration(f.Timeout), Stale: catalog.Duration(f.Stale),
		Fall: f.Fall, Rise: f.Rise,
	}
}

type outageForm struct {
	Status      int    `json:"status,omitzero"`
	Body        string `json:"body,omitzero"`
	ContentType string `json:"content_type,omitzero"`
	RetryAfter  int64  `json:"retry_after,omitzero"`
}

func formOfOutage(o *catalog.Outage) outageForm {
	return outageForm{o.Status, o.Body, o.ContentType, int64(o.RetryAfter)}
}

func (f outageForm) outage() *catalog.Outage {
	return &catalog.Outage{Status: f.Status, Body: f.Body, ContentType: f.ContentType, RetryAfter: catalog.Duration(f.RetryAfter)}
}
