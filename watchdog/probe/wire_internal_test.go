package probe

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzTwoRecords: what is cut in two can be put together again, and what is no
// record stays as it is.
func FuzzTwoRecords(f *testing.F) {
	f.Add([]byte{22, 3, 1, 0, 4, 1, 2, 3, 4})
	f.Add([]byte{22, 3, 1, 0, 2, 1, 2})
	f.Add([]byte{22, 3, 1, 0, 5, 1})
	f.Add([]byte{22, 3})
	f.Fuzz(func(t *testing.T, record []byte) {
		out := twoRecords(record)
		if bytes.Equal(out, record) {
			if len(record) >= 7 && int(binary.BigEndian.Uint16(record[3:])) == len(record)-5 {
				t.Error("it was not cut")
			}
			return
		}
		var body []byte
		for n := 0; len(out) > 0; n++ {
			size := int(binary.BigEndian.Uint16(out[3:]))
			if n > 1 || size == 0 || !bytes.Equal(out[:3], record[:3]) {
				t.Fatalf("record %d of %d bytes", n, size)
			}
			body = append(body, out[5:5+size]...)
			out = out[5+size:]
		}
		if !bytes.Equal(body, record[5:]) {
			t.Error("the records hold something else")
		}
	})
}
