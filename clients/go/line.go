package mintleaf

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// The most calls that wait on one line.
	callsMax = 10_000
	// A span that was taken back hands out nothing: its cursor lies here. No caller adds enough to overflow it.
	takenBack = int64(1) << 62
)

// span is the front range of the current lease, handed out without a lock. One cursor walks it, upward only. A span that
// is taken back is never used again: the rest of it becomes another one.
type span struct {
	next atomic.Int64 // how many ids are taken
	// What takers write lies in another cache line than what they read.
	_ [120]byte
	// The first id, and how many there are.
	start uint64
	len   int64
	// The next lease is asked for when this many are taken; never if it is above len.
	refillAt int64
	// When the ids are too old; 0: never.
	staleAt time.Duration
	// How many ids a handle takes at once.
	block int64
}

// lease is a lease that is held.
type lease struct {
	ranges []idRange
	total  int64
	// The next lease is asked for once this many ids are used.
	mark    int64
	staleAt time.Duration
}

func (l *lease) left() (sum int64) {
	for _, r := range l.ranges {
		sum += r.len()
	}
	return sum
}

// setMark puts the mark at half of what is left. The last one or two ids have none: a caller that wants an id now and then
// is better off with one request for each.
func (l *lease) setMark() {
	left := l.left()
	l.mark = idMax
	if left > 2 {
		l.mark = l.total - left + (left+1)/2
	}
}

// call is a call that waits for ids.
type call struct {
	lacks    int64
	count    int64
	got      []idRange
	deadline time.Duration
	reply    chan callReply
}

// callReply has ranges, or ids as the node wrote them, or an error.
type callReply struct {
	ranges []idRange
	ids    []string
	err    error
}

type shape int

const (
	shapeUnknown shape = iota
	shapeLeased
	// Answers say "lease": false.
	shapeByCall
)

// line is a tag or the snowflakes: its leases, the calls that wait for ids, and the flight that asks for more.
type line struct {
	c       *Client
	tag     string // "": the snowflakes
	kind    *kind
	current atomic.Pointer[span]

	mu       sync.Mutex
	shape    shape
	leases   []*lease // the current one, whose front range is the span if there is one, and the next
	calls    []*call
	ownCalls int // calls that send their own requests
	flying   bool
	asker    *call // the call that the flight's list is for
	sizing   sizing
	// Ids handed out so far, and the same when the last lease was asked for.
	handed, handedWhenAsked int64
	// The error of the last failed attempt.
	met error
	// The endpoint where the tag's rate limit is used up, and until when.
	limitedAt    int
	limitedUntil time.Duration
	closed       bool
}

func newLine(c *Client, tag string, k *kind) *line {
	l := &line{c: c, tag: tag, kind: k, sizing: sizing{kind: k}}
	if k.isLeased {
		l.shape = shapeLeased
	}
	return l
}

// take returns up to count ids that are held.
func (l *line) take(count int64) (idRange, bool) {
	s := l.current.Load()
	if s == nil || (s.staleAt != 0 && l.c.now() >= s.staleAt) {
		return idRange{}, false
	}
	end := s.next.Add(count)
	first := end - count
	if first >= s.len {
		return idRange{}, false
	}
	if first < s.refillAt && s.refillAt <= end && s.refillAt <= s.len {
		l.refill()
	}
	return idRange{s.start + uint64(first), s.start + uint64(min(end, s.len))}, true
}

// refill orders the next lease: the one before is half used.
func (l *line) refill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
}

// want waits for ids, in addition to those that the call has.
func (l *line) want(ctx context.Context, count int64, got []idRange) (callReply, error) {
	c := l.c
	c.counters.waits.Add(1)
	waiting := &call{count: count, lacks: count, got: got, deadline: c.now() + c.cfg.Timeout, reply: make(chan callReply, 1)}
	for _, r := range got {
		waiting.lacks -= r.len()
	}
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return callReply{}, ErrClosed
	case len(l.calls)+l.ownCalls >= callsMax:
		l.mu.Unlock()
		return callReply{}, ErrOverloaded
	case l.shape == shapeByCall:
		l.ownCalls++
		l.mu.Unlock()
		return l.askForItself(ctx, waiting)
	}
	l.calls = append(l.calls, waiting)
	l.settle()
	l.mu.Unlock()
	timer := time.NewTimer(waiting.deadline - c.now())
	defer timer.Stop()
	select {
	case reply := <-waiting.reply:
		return l.replied(ctx, waiting, reply)
	case <-ctx.Done():
		return l.abandon(ctx, waiting, ctx.Err())
	case <-timer.C:
		return l.abandon(ctx, waiting, nil)
	}
}

// errOwn is the reply to a call that has to send its own request.
var errOwn = errors.New("the call asks for itself")

func (l *line) replied(ctx context.Context, waiting *call, reply callReply) (callReply, error) {
	if reply.err == errOwn {
		return l.askForItself(ctx, waiting)
	}
	return reply, reply.err
}

// abandon ends a call whose time is over. What it has got is wasted.
func (l *line) abandon(ctx context.Context, waiting *call, err error) (callReply, error) {
	l.mu.Lock()
	for at, one := range l.calls {
		if one == waiting {
			l.calls = append(l.calls[:at], l.calls[at+1:]...)
			if err == nil {
				err = l.timeUp()
			}
			l.mu.Unlock()
			return callReply{}, err
		}
	}
	l.mu.Unlock()
	// The reply came at the same moment.
	return l.replied(ctx, waiting, <-waiting.reply)
}

// timeUp is the error of a call that runs out of time. The caller holds the lock.
func (l *line) timeUp() error {
	if l.met == nil {
		return unavailable("no answer yet")
	}
	return l.met
}

// askForItself sends the request of one call. What it gets goes to this call alone.
func (l *line) askForItself(ctx context.Context, waiting *call) (callReply, error) {
	o := l.c.ask(ctx, idsRequest(l.tag, waiting.count, false), waiting.deadline, l)
	l.mu.Lock()
	l.ownCalls--
	if o.kind == gotRefusal {
		l.forgetShape(o.refused)
	}
	l.mu.Unlock()
	if o.kind == gotIDs {
		return callReply{ids: o.ids}, nil
	}
	return callReply{}, o.error(ctx)
}

// fly is the flight for a lease, or for the first ids of a line.
func (l *line) fly(r *request, deadline time.Duration) {
	defer l.c.flights.Done()
	o := l.c.ask(l.c.ctx, r, deadline, l)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.flying = false
	switch o.kind {
	case gotLease:
		l.landed(o.ranges)
	case gotIDs:
		if o.mayBeKept {
			l.landed(joined(o.ids))
		} else {
			l.notForKeeping(o.ids)
		}
	case gotNotForKeeping:
		l.notForKeeping(nil)
	case gotTooMany:
		l.sizing.countMax = o.countMax
	case gotRefusal:
		l.forgetShape(o.refused)
		for _, waiting := range l.calls {
			waiting.reply <- callReply{err: o.refused}
		}
		l.calls = nil
		l.postpone()
	default:
		l.expire()
		l.postpone()
	}
	l.settle()
}

// expire ends the calls whose time is over, so that no flight begins for them. All wait equally long: the oldest ends
// first.
func (l *line) expire() {
	now := l.c.now()
	for len(l.calls) > 0 && l.calls[0].deadline <= now {
		l.calls[0].reply <- callReply{err: l.timeUp()}
		l.calls = l.calls[1:]
	}
}

func (l *line) landed(ranges []idRange) {
	l.shape, l.met = shapeLeased, nil
	fresh := &lease{ranges: ranges}
	fresh.total = fresh.left()
	fresh.setMark()
	l.c.counters.leases.Add(1)
	l.c.counters.leasedIDs.Add(uint64(fresh.total))
	if l.kind.freshFor > 0 {
		fresh.staleAt = l.c.now() + l.kind.freshFor
	}
	l.leases = append(l.leases, fresh)
}

// notForKeeping ends a flight whose ids must not be kept. listed is for the call that asked; the others ask for
// themselves.
func (l *line) notForKeeping(listed []string) {
	l.shape, l.met = shapeByCall, nil
	if listed != nil && len(l.calls) > 0 && l.calls[0] == l.asker {
		l.asker.reply <- callReply{ids: listed}
		l.calls = l.calls[1:]
	}
	l.ownCalls += len(l.calls)
	for _, waiting := range l.calls {
		waiting.reply <- callReply{err: errOwn}
	}
	l.calls = nil
}

// settle serves the waiting calls, in their order, from what is held. Then it orders the next lease and leaves the rest
// to the span.
func (l *line) settle() {
	l.takeBack()
	now := l.c.now()
	fresh := l.leases[:0]
	for _, one := range l.leases {
		if one.staleAt == 0 || now < one.staleAt {
			fresh = append(fresh, one)
		}
	}
	l.leases = fresh
	for len(l.calls) > 0 && l.serve(l.calls[0]) {
		l.calls[0].reply <- callReply{ranges: l.calls[0].got}
		l.calls = l.calls[1:]
	}
	for len(l.leases) > 0 && len(l.leases[0].ranges) == 0 {
		l.leases = l.leases[1:]
	}
	if !l.flying && !l.closed {
		l.order(now)
	}
	l.install()
}

// serve gives a call what is held, and reports whether it lacks nothing.
func (l *line) serve(waiting *call) bool {
	for _, one := range l.leases {
		for waiting.lacks > 0 && len(one.ranges) > 0 {
			front := &one.ranges[0]
			given := min(front.len(), waiting.lacks)
			waiting.got = append(waiting.got, idRange{front.start, front.start + uint64(given)})
			front.start += uint64(given)
			waiting.lacks -= given
			l.handed += given
			if front.start == front.end {
				one.ranges = one.ranges[1:]
			}
		}
	}
	return waiting.lacks == 0
}

// order starts a flight if one is due.
func (l *line) order(now time.Duration) {
	deadline := now + l.c.cfg.Timeout
	l.asker = nil
	if len(l.calls) > 0 {
		l.asker, deadline = l.calls[0], l.calls[0].deadline
	}
	var r *request
	switch l.shape {
	case shapeByCall:
		return
	case shapeUnknown:
		if l.asker == nil {
			return
		}
		r = idsRequest(l.tag, l.asker.count, false)
	case shapeLeased:
		isHalfUsed := len(l.leases) == 1 && l.leases[0].total-l.leases[0].left() >= l.leases[0].mark
		if l.asker == nil && !isHalfUsed {
			return
		}
		waiting := int64(0)
		for _, one := range l.calls {
			waiting += one.lacks
		}
		used := l.handed - l.handedWhenAsked
		l.handedWhenAsked = l.handed
		r = idsRequest(l.tag, l.sizing.next(now, used, waiting), true)
	}
	l.flying = true
	l.c.flights.Add(1)
	go l.fly(r, deadline)
}

// takeBack takes the rest of the span back.
func (l *line) takeBack() {
	s := l.current.Swap(nil)
	if s == nil {
		return
	}
	taken := min(s.next.Swap(takenBack), s.len)
	l.handed += taken
	one := l.leases[0]
	if taken == s.len {
		one.ranges = one.ranges[1:]
	} else {
		one.ranges[0].start += uint64(taken)
	}
}

// install gives the front range to a span.
func (l *line) install() {
	if l.closed || len(l.leases) == 0 {
		return
	}
	one := l.leases[0]
	front := one.ranges[0]
	s := &span{start: front.start, len: front.len(), refillAt: idMax, staleAt: one.staleAt}
	s.block = min(max(one.total/blocksOfALease, 1), blockMax)
	if len(l.leases) == 1 && !l.flying && l.shape == shapeLeased && one.mark != idMax {
		s.refillAt = max(one.mark-(one.total-one.left()), 1)
	}
	l.current.Store(s)
}

// postpone puts the mark at half of what is left, after a failure.
func (l *line) postpone() {
	l.takeBack()
	if len(l.leases) > 0 && len(l.leases[0].ranges) == 0 {
		l.leases = l.leases[1:]
	}
	if len(l.leases) > 0 {
		l.leases[0].setMark()
	}
}

func (l *line) forgetShape(refused *RefusedError) {
	if (refused.Status == 400 || refused.Status == 404) && !l.kind.isLeased {
		l.shape = shapeUnknown
	}
}

// met notes the error of an attempt, with which calls fail that run out of time.
func (l *line) hasMet(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.met = err
}

func (l *line) rateLimited(endpoint int, until time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limitedAt, l.limitedUntil = endpoint, until
	l.sizing.halve()
}

func (l *line) limited(now time.Duration) (int, time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limitedAt, l.limitedUntil, l.limitedUntil > now
}

// close throws away what is held. The line hands out nothing from then on.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.takeBack()
	l.leases = nil
	for _, waiting := range l.calls {
		waiting.reply <- callReply{err: ErrClosed}
	}
	l.calls = nil
}

// joined makes ranges of ids that follow each other. The ids are numbers.
func joined(ids []string) []idRange {
	var ranges []idRange
	for _, text := range ids {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			continue
		}
		if last := len(ranges) - 1; last >= 0 && ranges[last].end == n {
			ranges[last].end++
		} else {
			ranges = append(ranges, idRange{n, n + 1})
		}
	}
	return ranges
}
