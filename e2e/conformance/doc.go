// Package conformance runs one table of scenarios against the built edge-relay and
// against a real HAProxy whose config edge-sidecar has written, and holds each
// verdict of the one against that of the other.
//
// A scene is a catalog, what is known of its gateways, and rows: somebody comes, and
// this is who serves him. All scenes live in one process of each product, so a row
// costs a connection and not a start. Where HAProxy does otherwise the row says so,
// by the name of a difference that docs/conformance.md explains. The test fails when
// a difference is gone, and when there is another one.
//
//	go test ./e2e/conformance
//	EDGE_BIN_DIR=$PWD/bin go test ./e2e/conformance -run TestConformance/names -v
//
// The tables are in the files that end in _scenes_test.go; scene_test.go says what
// their fields mean.
package conformance
