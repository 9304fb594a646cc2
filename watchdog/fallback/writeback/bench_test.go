package writeback_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkCarry is a writeback of 1 GB in 64 files, of which one byte in a hundred has
// changed, in runs of 64 KiB, and of the first time, when all of it is new.
func BenchmarkCarry(b *testing.B) {
	const files, size, run = 64, 16 << 20, 64 << 10
	random := rand.NewChaCha8([32]byte{2})
	for b.Loop() {
		b.StopTimer()
		r := newRig(b)
		block := make([]byte, size)
		for n := range files {
			_, _ = random.Read(block)
			must(b, os.WriteFile(filepath.Join(r.here, fmt.Sprint(n)), block, 0o600))
		}
		b.StartTimer()
		all := r.must()
		b.StopTimer()
		for n := range files {
			f, err := os.OpenFile(filepath.Join(r.here, fmt.Sprint(n)), os.O_RDWR, 0)
			must(b, err)
			for at := int64(n) * run % (100 * run); at < size; at += 100 * run {
				_, _ = random.Read(block[:run])
				_, err := f.WriteAt(block[:run], at)
				must(b, err)
			}
			must(b, f.Close())
		}
		b.StartTimer()
		some := r.must()
		b.ReportMetric(float64(all.Bytes), "bytes/first")
		b.ReportMetric(all.Took.Seconds(), "s/first")
		b.ReportMetric(float64(some.Bytes), "bytes/1%")
		b.ReportMetric(some.Took.Seconds(), "s/1%")
	}
}
