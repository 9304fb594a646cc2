//go:build race

package norace

const enabled = true
