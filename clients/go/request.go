package mintleaf

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	idMax       = int64(^uint64(0) >> 1)
	countMax    = 10_000
	tagCharsMax = 128
	keyBytesMax = 256
)

type requestKind int

const (
	askIDs requestKind = iota
	askRanges
	askNumber
	askRegister
	askLease
	askRenewal
	askGiveBack
	askCluster
)

// request is one request, for any endpoint.
type request struct {
	kind   requestKind
	method string
	path   string
	body   string
	// How many ids it asks for.
	count int64
}

func idsRequest(tag string, count int64, asRanges bool) *request {
	r := &request{kind: askIDs, method: "GET", path: "/v1/segment/" + escape(tag), count: count}
	if tag == "" {
		r.path = "/v1/snowflake"
	}
	r.path += "?count=" + strconv.FormatInt(count, 10)
	if asRanges {
		r.kind = askRanges
		r.path += "&format=ranges"
	}
	return r
}

func numberRequest(tag, key string) *request {
	path := "/v1/sequence/" + escape(tag) + "/" + escape(key) + "?count=1"
	return &request{kind: askNumber, method: "GET", path: path, count: 1}
}

func registerRequest(tag, key string) *request {
	return &request{kind: askRegister, method: "POST", path: "/v1/register/" + escape(tag) + "/" + escape(key)}
}

// escape makes one segment of a path. The dot is escaped too, so that nothing takes ".." for a way up.
func escape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '~':
			b.WriteByte(c)
		default:
			const hex = "0123456789ABCDEF"
			b.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		}
	}
	return b.String()
}

func checkName(what, name string) error {
	chars := utf8.RuneCountInString(name)
	if chars < 1 || chars > tagCharsMax || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return invalid("%s must have 1 to %d characters, and no control characters", what, tagCharsMax)
	}
	return nil
}

func checkKeyed(tag, key string) error {
	if err := checkName("tag", tag); err != nil {
		return err
	}
	if len(key) < 1 || len(key) > keyBytesMax || !utf8.ValidString(key) {
		return invalid("key must have 1 to %d bytes of UTF-8", keyBytesMax)
	}
	return nil
}
