package conformance_test

import (
	"encoding/binary"
	"slices"

	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// Wire constants of RFC 8446 and RFC 6066.
const (
	recordHead    = 5  // section 5.1
	handshake     = 22 // section 5.1
	serverName    = 0  // RFC 6066 section 3
	mostInARecord = 1 << 14
)

// small is a ClientHello of the least that one can have.
func small(name string) []byte { return haproxytest.RawHello(name, 0) }

// quantum is one as Go's client sends it, with a post-quantum key share. The random
// and the session id are not, so that it is the same in each run.
func quantum(name string) []byte {
	hello := haproxytest.Hello(name)
	const random = recordHead + 4 + 2
	clear(hello[random : random+32])
	return hello
}

// sized is a hello for a name that is so long on the wire, all records counted.
func sized(name string, size int) []byte {
	padding := size - len(haproxytest.RawHello(name, 1)) + 1
	if size > recordHead+mostInARecord {
		padding -= recordHead // of the second record
	}
	return records(haproxytest.RawHello(name, padding), mostInARecord)
}

// records cuts the handshake of a hello into TLS records of these lengths; the last
// one has the rest, in as many as it takes.
func records(hello []byte, lengths ...int) (out []byte) {
	body := hello[recordHead:]
	for len(body) > 0 {
		n := min(len(body), mostInARecord)
		if len(lengths) > 0 {
			n, lengths = min(n, lengths[0]), lengths[1:]
		}
		out = append(out, handshake, 3, 1)
		out = binary.BigEndian.AppendUint16(out, uint16(n))
		out = append(out, body[:n]...)
		body = body[n:]
	}
	return out
}

// every cuts it into records of the same length.
func every(hello []byte, length int) []byte {
	return records(hello, slices.Repeat([]int{length}, len(hello)/length+1)...)
}

// entry is one name in a server_name list, of a type.
func entry(kind byte, name string) []byte {
	return append([]byte{kind}, vector(name)...)
}

// vector is a text behind its length in two bytes.
func vector[T string | []byte](of T) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(of))), of...)
}

// extension is one of a ClientHello.
func extension(kind int, data []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(kind)), vector(data)...)
}

// crafted is a hello with these extensions, which need not be right.
func crafted(extensions ...[]byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 0x01, 1, 0)
	return message(append(body, vector(slices.Concat(extensions...))...))
}

// message puts a ClientHello's body into a handshake message and a record.
func message(body []byte) []byte {
	head := []byte{1, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}
	return append([]byte{handshake, 3, 1}, vector(append(head, body...))...)
}

// edited changes one byte of a hello.
func edited(hello []byte, at int, b byte) []byte {
	hello = slices.Clone(hello)
	hello[at] = b
	return hello
}
