package hello

// Bounds of a server name.
const (
	nameTypeHost  = 0   // RFC 6066, section 3
	maxServerName = 255 // RFC 1035, section 3.1; the field itself allows 65535
)

// readServerName reads a server_name extension. Name types other than
// host_name are skipped: RFC 6066 lets them be added, with the same length
// field, and none ever was.
func (info *Info) readServerName(data cursor) *Error {
	list, ok := data.vector16()
	if !ok || len(data) != 0 || len(list) == 0 {
		return errNameList
	}
	var host cursor
	found := false
	for len(list) > 0 {
		kind, ok1 := list.uint8()
		name, ok2 := list.vector16()
		switch {
		case !ok1 || !ok2:
			return errNameList
		case kind != nameTypeHost:
			continue
		case found:
			return errTwoNames
		}
		host, found = name, true
	}
	if !found {
		return nil
	}
	return info.normalise(host)
}

// normalise checks the name and keeps it in lower case, without its trailing
// dot. An IP literal, which RFC 6066 forbids but clients send, stays as it is.
func (info *Info) normalise(name []byte) *Error {
	if len(name) == 0 || len(name) > maxServerName {
		return errNameLength
	}
	var lower [maxServerName]byte
	for i, c := range name {
		if c <= ' ' || c >= 0x7f {
			return errNameBytes
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	n := len(name)
	if lower[n-1] == '.' {
		n--
	}
	if n == 0 {
		return errNameLength
	}
	info.ServerName = string(lower[:n])
	return nil
}

// The lists that nearly all clients send, as they look on the wire. They need
// no memory per hello.
var (
	protocolsH2H1 = []string{"h2", "http/1.1"}
	protocolsH1   = []string{"http/1.1"}
	protocolsH2   = []string{"h2"}
)

// readProtocols reads an ALPN extension.
func (info *Info) readProtocols(data cursor) *Error {
	list, ok := data.vector16()
	if !ok || len(data) != 0 || len(list) == 0 {
		return errProtocols
	}
	switch string(list) {
	case "\x02h2\x08http/1.1":
		info.Protocols = protocolsH2H1[:2:2]
		return nil
	case "\x08http/1.1":
		info.Protocols = protocolsH1[:1:1]
		return nil
	case "\x02h2":
		info.Protocols = protocolsH2[:1:1]
		return nil
	}
	count, ok := countProtocols(list)
	if !ok {
		return errProtocols
	}
	all := string(list) // one string for all names
	info.Protocols = make([]string, 0, count)
	for len(all) > 0 {
		end := 1 + int(all[0])
		info.Protocols = append(info.Protocols, all[1:end])
		all = all[end:]
	}
	return nil
}

func countProtocols(list cursor) (int, bool) {
	count := 0
	for len(list) > 0 {
		name, ok := list.vector8()
		if !ok || len(name) == 0 {
			return 0, false
		}
		count++
	}
	return count, true
}
