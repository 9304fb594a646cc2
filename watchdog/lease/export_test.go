package lease

// OpenMemory is a Single without a disk, under a clock of the test's.
func OpenMemory(clock func() Moment) *Single {
	nothing := func() error { return nil }
	return newSingle(disk{save: func(map[string]*singleKey) error { return nil }, check: nothing, close: nothing}, clock)
}
