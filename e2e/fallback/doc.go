// Package fallback tests that homes cover each other, with the built programs, real
// sockets, a real rsync and a real Docker: outages, partitions, deaths at each step of a
// handback, and what no home may ever do, seen from outside. The world it plays in is
// package stage. What needs namespaces or a Docker is skipped, with the reason, where
// there are none.
//
//	EDGE_BIN_DIR=bin go test -v ./e2e/fallback
package fallback
