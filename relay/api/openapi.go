package api

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object of the document.
type object = map[string]any

// document makes the OpenAPI description (version 3.1.0) of the operations.
func document() []byte {
	s := &schemas{made: object{}}
	paths := object{}
	for path, methods := range byPath(operations) {
		item := object{}
		for method, op := range methods {
			item[strings.ToLower(method)] = op.describe(s)
		}
		paths[path] = item
	}
	responses := object{"Problem": object{
		"description": "What is wrong.",
		"content":     object{"application/problem+json": object{"schema": s.of(Problem{})}},
	}}
	doc, err := json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Edgeward relay", "version": "1",
			"description": "Gateways, pools and routes of a relay: what is configured, who serves what and why. " +
				"Every error is a problem document (RFC 9457) with a stable code. " +
				"An ETag is a revision and a digest; If-Match goes by the revision alone.",
		},
		"paths": paths,
		"components": object{
			"schemas": s.made, "responses": responses,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "Not asked for at the admin endpoint of Caddy."}},
		},
		"security": []any{object{"token": []any{}}, object{}},
	})
	if err != nil {
		panic(err) // maps, slices and strings only
	}
	return append(doc, '\n')
}

func serveDocument(c *call) error { return c.send(c.api.document, listTag(c.api.document)) }

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

// describe is the operation object of the document.
func (op *operation) describe(s *schemas) object {
	d := object{
		"operationId": op.id, "summary": op.about, "parameters": op.parameters(), "responses": op.responses(s),
		"tags": []string{tagOf(op.path)},
	}
	if op.body != nil {
		d["requestBody"] = object{"required": true, "content": op.content(s)}
	}
	return d
}

// tagOf is the first word of a path below /edge/.
func tagOf(path string) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(path, "/edge/"), "/")
	return strings.TrimSuffix(word, ".json")
}

func (op *operation) content(s *schemas) object {
	if op.patches {
		schema := s.patch(op.body)
		return object{"application/json": object{"schema": schema}, mergePatch: object{"schema": schema}}
	}
	schema := s.input(op.body, op.id, op.needs)
	if _, ok := op.body.(Members); ok {
		items := schema["properties"].(object)["members"]
		schema = object{"oneOf": []any{schema, items}}
	}
	return object{"application/json": object{"schema": schema}}
}

func (op *operation) parameters() []any {
	list := []any{}
	for _, m := range pathParam.FindAllStringSubmatch(op.path, -1) {
		schema := object{"type": "string"}
		if m[1] == "action" {
			schema["enum"] = op.actions()
		}
		list = append(list, object{"name": m[1], "in": "path", "required": true, "schema": schema})
	}
	for _, q := range op.query {
		list = append(list, object{"name": q.name, "in": "query", "description": q.about, "schema": object{"type": q.kind}})
	}
	if op.matches {
		list = append(list, header("If-Match", "The ETag of what was read: refuse the change if it has changed since."))
	}
	if op.method == http.MethodGet {
		list = append(list, header("If-None-Match", "The ETag of what the client has: 304 if it is the same."))
	}
	return list
}

func header(name, about string) object {
	return object{"name": name, "in": "header", "description": about, "schema": object{"type": "string"}}
}

// actions are what may stand for {action}.
func (op *operation) actions() (list []string) {
	if strings.HasPrefix(op.path, "/edge/pools/") {
		return []string{"failback", "failover"}
	}
	for name := range gatewayActions {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (op *operation) responses(s *schemas) object {
	ok := object{"description": http.StatusText(op.success())}
	if op.answers != nil {
		content := object{"application/json": object{"schema": s.of(op.answers)}}
		if op.streams {
			content["text/event-stream"] = object{"schema": object{"type": "string"}}
		}
		ok["content"] = content
	}
	r := object{strconv.Itoa(op.success()): ok}
	for _, status := range op.failures() {
		r[strconv.Itoa(status)] = object{"$ref": "#/components/responses/Problem"}
	}
	if op.method == http.MethodGet {
		r["304"] = object{"description": "The client has it already."}
	}
	return r
}

// failures are the statuses of an operation's errors.
func (op *operation) failures() []int {
	list := append([]int{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError,
	}, op.fails...)
	if !op.idle {
		list = append(list, http.StatusServiceUnavailable)
	}
	if len(op.query) > 0 || op.body != nil {
		list = append(list, http.StatusBadRequest)
	}
	if op.body != nil {
		list = append(list, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if op.matches {
		list = append(list, http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusPreconditionRequired)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
