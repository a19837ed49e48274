package mintleaf

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
)

const (
	workerEnd     = 1 << 16
	retryAfterMax = time.Hour
	// The most characters of an answer that an error shows.
	saidCharsMax = 200
)

// answer is an answer that has arrived completely.
type answer struct {
	status     int
	retryAfter string
	body       []byte
}

// outcome is what an answer means for the request that it answers, or how the attempts of a flight end.
type outcome struct {
	kind outcomeKind
	// Of a lease.
	ranges []idRange
	// As the node wrote them, and whether other ids of the tag may be kept.
	ids        []string
	mayBeKept  bool
	registered Registration
	grant      grant
	countMax   int64
	refused    *RefusedError
	// How long to wait, if the answer says so.
	wait time.Duration
	err  error
}

type outcomeKind int

const (
	gotFailure outcomeKind = iota // another endpoint may do better
	gotLease
	gotIDs
	gotNotForKeeping
	gotRegistration
	gotGrant
	gotDone
	gotTooMany
	gotRateLimited
	gotRefusal
	gotTimeUp // the deadline passed first; err is that of the last attempt
)

// idRange is the ids from start up to and without end.
type idRange struct{ start, end uint64 }

func (r idRange) len() int64 { return int64(r.end - r.start) }

// grant is a lease of a worker id, or more of it.
type grant struct {
	workerID        int64
	lease           string
	fromMS, untilMS int64
}

var errNotUnderstood = errors.New("the answer is not understood")

func read(r *request, a *answer) outcome {
	var o outcome
	var err error
	isOK := a.status == http.StatusOK
	isMade := isOK || a.status == http.StatusCreated
	switch {
	case r.kind == askRegister && isMade:
		o, err = readRegistration(a.body)
	case (r.kind == askLease || r.kind == askRenewal) && isMade:
		o, err = readGrant(a.body)
	case r.kind == askGiveBack && (isOK || a.status == http.StatusNoContent):
		o.kind = gotDone
	case r.count > 0 && isOK:
		o, err = readIDs(r, a.body)
	default:
		return readRefusal(r, a)
	}
	if err != nil {
		return outcome{kind: gotFailure, err: err}
	}
	return o
}

func readIDs(r *request, body []byte) (outcome, error) {
	var b struct {
		IDs    []string `json:"ids"`
		Ranges []struct {
			Start string `json:"start"`
			End   string `json:"end"`
		} `json:"ranges"`
		Lease *bool `json:"lease"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return outcome{}, errNotUnderstood
	}
	mayBeKept := b.Lease == nil || *b.Lease
	if r.kind != askRanges {
		if int64(len(b.IDs)) != r.count {
			return outcome{}, fmt.Errorf("the answer has %d ids, not %d", len(b.IDs), r.count)
		}
		seen, last := make(map[string]bool, len(b.IDs)), int64(0)
		for _, text := range b.IDs {
			if seen[text] {
				return outcome{}, errors.New("the answer has an id twice")
			}
			seen[text] = true
			if id, isNumber := number(text); mayBeKept {
				if !isNumber || id <= last {
					return outcome{}, errors.New("the answer has ids that are not rising numbers from 1 to 2^63-1")
				}
				last = id
			}
		}
		return outcome{kind: gotIDs, ids: b.IDs, mayBeKept: mayBeKept}, nil
	}
	if !mayBeKept {
		return outcome{kind: gotNotForKeeping}, nil
	}
	ranges, total, last := make([]idRange, 0, len(b.Ranges)), uint64(0), uint64(0)
	for _, text := range b.Ranges {
		start, isStart := digits(text.Start)
		end, isEnd := digits(text.End)
		if !isStart || !isEnd || start < 1 || start >= end || start < last {
			return outcome{}, errors.New("the answer has a range that is malformed or overlaps another")
		}
		ranges, total, last = append(ranges, idRange{start, end}), total+end-start, end
	}
	if total != uint64(r.count) {
		return outcome{}, fmt.Errorf("the answer has %d ids, not %d", total, r.count)
	}
	return outcome{kind: gotLease, ranges: ranges}, nil
}

func readRegistration(body []byte) (outcome, error) {
	var b struct {
		ID     string  `json:"id"`
		Text   *string `json:"text"`
		Period string  `json:"period"`
		New    *bool   `json:"new"`
	}
	if err := json.Unmarshal(body, &b); err != nil || b.New == nil {
		return outcome{}, errNotUnderstood
	}
	id, isNumber := number(b.ID)
	if !isNumber {
		return outcome{}, errors.New("the answer has an id that is not a number from 1 to 2^63-1")
	}
	text := b.ID
	if b.Text != nil {
		text = *b.Text
	}
	return outcome{kind: gotRegistration, registered: Registration{ID: id, Text: text, Period: b.Period, New: *b.New}}, nil
}

func readGrant(body []byte) (outcome, error) {
	var b struct {
		WorkerID *int64 `json:"worker_id"`
		Lease    string `json:"lease"`
		FromMS   string `json:"from_ms"`
		UntilMS  string `json:"until_ms"`
	}
	if err := json.Unmarshal(body, &b); err != nil || b.WorkerID == nil {
		return outcome{}, errNotUnderstood
	}
	from, isFrom := number(b.FromMS)
	until, isUntil := number(b.UntilMS)
	id := *b.WorkerID
	if !isFrom || !isUntil || from >= until || id < 0 || id >= workerEnd || b.Lease == "" {
		return outcome{}, errors.New("the answer has a malformed lease")
	}
	return outcome{kind: gotGrant, grant: grant{workerID: id, lease: b.Lease, fromMS: from, untilMS: until}}, nil
}

func readRefusal(r *request, a *answer) outcome {
	var p struct {
		Code     string `json:"code"`
		Detail   string `json:"detail"`
		CountMax int64  `json:"count_max"`
	}
	isText := json.Unmarshal(a.body, &p) != nil
	wait := time.Duration(-1)
	if seconds, isNumber := digits(strings.TrimSpace(a.retryAfter)); isNumber {
		wait = min(time.Duration(min(seconds, 3600))*time.Second, retryAfterMax)
	}
	refused := &RefusedError{Status: a.status, Code: p.Code, Detail: p.Detail}
	switch {
	case a.status == http.StatusUnprocessableEntity && p.Code == "count_over_rate_limit" && r.kind == askRanges &&
		p.CountMax >= 1 && p.CountMax < r.count:
		return outcome{kind: gotTooMany, countMax: p.CountMax}
	case a.status == http.StatusTooManyRequests && p.Code == "rate_limited":
		// Also after 0 s: the request would not come to rest before its deadline.
		if wait <= 0 {
			wait = time.Second
		}
		return outcome{kind: gotRateLimited, refused: refused, wait: wait}
	case a.status >= 400 && a.status < 500 && a.status != http.StatusRequestTimeout && a.status != http.StatusTooManyRequests &&
		p.Code != "":
		return outcome{kind: gotRefusal, refused: refused}
	}
	// Also a refusal without a code: every refusal of a node has one, so this comes from something else.
	said := p.Detail
	if isText {
		said = string(a.body)
	}
	text := fmt.Sprintf("answered %d", a.status)
	if said = firstLine(said); said != "" {
		text += ": " + said
	}
	return outcome{kind: gotFailure, wait: max(wait, 0), err: errors.New(text)}
}

// firstLine is the first line of a text from the network, short enough for an error, and without control characters.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	said := make([]rune, 0, saidCharsMax)
	for _, char := range line {
		if len(said) == saidCharsMax {
			break
		}
		if unicode.IsControl(char) {
			char = ' '
		}
		said = append(said, char)
	}
	return strings.TrimSpace(string(said))
}

// zone returns the zone of the node that answered GET /v1/cluster, "" where it is in none, and whether the answer is about
// that node at all.
func zone(a *answer) (zone string, isKnown bool) {
	var b struct {
		NodeID uint64 `json:"node_id"`
		Nodes  []struct {
			ID   uint64 `json:"id"`
			Zone string `json:"zone"`
		} `json:"nodes"`
	}
	if json.Unmarshal(a.body, &b) != nil {
		return "", false
	}
	for _, node := range b.Nodes {
		if node.ID == b.NodeID {
			return node.Zone, true
		}
	}
	return "", false
}

// number reads an id, 1 to 2^63-1, in decimal digits and nothing else.
func number(text string) (int64, bool) {
	n, isNumber := digits(text)
	return int64(n), isNumber && n > 0 && n <= uint64(idMax)
}

// digits reads a number up to 2^63, which the end of a range may be.
func digits(text string) (uint64, bool) {
	if len(text) == 0 || len(text) > 19 {
		return 0, false
	}
	n := uint64(0)
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(text[i]-'0')
	}
	return n, n <= uint64(idMax)+1
}
