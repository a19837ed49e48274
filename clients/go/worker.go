package mintleaf

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	secondsMin, secondsMax = 5, 3_600
	secondsDefault         = 60
	holderCharsMax         = 128
	// How long a renewal waits after a refusal that may pass.
	renewAgain = time.Second
	// The origin of times in snowflakes, in Unix milliseconds.
	epochDefault = 1288834974657
)

// LeaseOption is an option of [Client.LeaseWorker].
type LeaseOption func(*leaseOptions)

type leaseOptions struct {
	seconds int
	holder  string
}

// LeaseSeconds sets how long a lease lasts without a renewal: 5 to 3,600 seconds, 60 by default.
func LeaseSeconds(seconds int) LeaseOption { return func(o *leaseOptions) { o.seconds = seconds } }

// LeaseHolder sets what operators see as the holder, by default the names of the host and of the process.
func LeaseHolder(holder string) LeaseOption { return func(o *leaseOptions) { o.holder = holder } }

// WorkerLease is a worker id of a pool, leased for some milliseconds, and renewed until it is closed. Its milliseconds
// belong to it for ever, whatever any clock shows.
type WorkerLease struct {
	c       *Client
	pool    string
	seconds int
	holder  string
	end     context.CancelFunc
	ended   context.Context
	closing sync.Once

	mu      sync.Mutex
	current granted
	// When the last answer about it arrived.
	answered time.Duration
	// The highest granted millisecond, or the one before the first.
	highest   int64
	lost      bool
	closed    bool
	renewed   chan struct{} // closed at every change of current, and then made anew
	generator *Generator
}

// granted is one lease, and when the answer that granted it arrived.
type granted struct {
	grant
	at time.Duration
}

// LeaseWorker leases a worker id of a pool.
func (c *Client) LeaseWorker(ctx context.Context, pool string, options ...LeaseOption) (*WorkerLease, error) {
	o := leaseOptions{seconds: secondsDefault}
	for _, option := range options {
		option(&o)
	}
	if o.holder == "" {
		host, _ := os.Hostname()
		o.holder = fmt.Sprintf("%.100s-%d", host, os.Getpid())
	}
	if err := checkName("pool", pool); err != nil {
		return nil, err
	}
	if o.seconds < secondsMin || o.seconds > secondsMax {
		return nil, invalid("seconds must be %d to %d", secondsMin, secondsMax)
	}
	if len([]rune(o.holder)) > holderCharsMax {
		return nil, invalid("holder must have at most %d characters", holderCharsMax)
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	w := &WorkerLease{c: c, pool: pool, seconds: o.seconds, holder: o.holder, renewed: make(chan struct{})}
	first := c.ask(ctx, w.request("", true), c.now()+c.cfg.Timeout, nil)
	if first.kind != gotGrant {
		return nil, first.error(ctx)
	}
	w.current = granted{first.grant, c.now()}
	w.answered = w.current.at
	w.highest = first.grant.fromMS - 1
	w.ended, w.end = context.WithCancel(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		w.end()
		return nil, ErrClosed
	}
	c.workers[w] = true
	c.flights.Add(1)
	go w.keep()
	return w, nil
}

func (w *WorkerLease) path() string { return "/v1/pools/" + escape(w.pool) + "/leases" }

func (w *WorkerLease) request(lease string, withHolder bool) *request {
	fields := map[string]any{"seconds": w.seconds}
	r := &request{kind: askRenewal, method: "POST", path: w.path() + "/" + escape(lease)}
	if withHolder {
		fields["holder"] = w.holder
		r.kind, r.path = askLease, w.path()
	}
	body, _ := json.Marshal(fields) // A number and a string always can be written.
	r.body = string(body)
	return r
}

// WorkerID is the leased worker id.
func (w *WorkerLease) WorkerID() int64 { return w.now().workerID }

// Pool is the pool that it belongs to.
func (w *WorkerLease) Pool() string { return w.pool }

// FromMS is the first Unix millisecond that may be stamped.
func (w *WorkerLease) FromMS() int64 { return w.now().fromMS }

// UntilMS is the first one that may not. Renewals move it further.
func (w *WorkerLease) UntilMS() int64 { return w.now().untilMS }

// Format prints the worker id and its end, whatever the verb: the fields have the name of the lease, which proves its holder.
func (w *WorkerLease) Format(f fmt.State, _ rune) {
	now := w.now()
	fmt.Fprintf(f, "worker id %d of %s until %d", now.workerID, w.pool, now.untilMS)
}

func (w *WorkerLease) now() grant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current.grant
}

// IsLost reports whether renewals have ended, because the lease is over. What it had before stays its own.
func (w *WorkerLease) IsLost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// MayStamp reports whether a millisecond may be stamped with the worker id. It reads no clock. What it grants counts as
// stamped. Once the lease has a generator, all milliseconds are the generator's, and MayStamp reports false.
func (w *WorkerLease) MayStamp(ms int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.generator == nil && w.stamp(ms)
}

// stamp grants a millisecond to the program, or to the generator. The caller holds the lock.
func (w *WorkerLease) stamp(ms int64) bool {
	if w.closed || ms < w.current.fromMS || ms >= w.current.untilMS {
		return false
	}
	w.highest = max(w.highest, ms)
	return true
}

// keep renews the lease at half of its seconds until it is closed or lost. A generator then goes on with another one.
func (w *WorkerLease) keep() {
	defer w.c.flights.Done()
	for {
		half := time.Duration(w.seconds) * time.Second / 2
		for w.c.sleepUntil(w.ended, w.answeredAt()+half) && w.renew() {
		}
		if w.ended.Err() != nil {
			return
		}
		select {
		case <-w.ended.Done():
			return
		case <-w.generates():
		}
		if !w.replace() {
			return
		}
	}
}

func (w *WorkerLease) answeredAt() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered
}

// renew reports whether the lease goes on.
func (w *WorkerLease) renew() bool {
	for {
		o := w.insist(w.request(w.now().lease, false))
		w.mu.Lock()
		switch {
		case w.ended.Err() != nil:
			w.mu.Unlock()
			return false
		case o.kind == gotGrant:
			w.current.untilMS = max(w.current.untilMS, o.grant.untilMS)
			w.answered = w.c.now()
			w.changed()
			w.mu.Unlock()
			return true
		case o.kind == gotRefusal && (o.refused.Status == 404 || o.refused.Status == 409):
			w.lost = true
			if logger := w.c.cfg.Logger; logger != nil {
				logger.Warn("a lease of a worker id is lost", "pool", w.pool, "worker_id", w.current.workerID, "error", o.refused)
			}
			w.changed()
			w.mu.Unlock()
			return false
		}
		w.mu.Unlock()
		if !w.c.sleepUntil(w.ended, w.c.now()+renewAgain) {
			return false
		}
	}
}

// insist asks until a node answers.
func (w *WorkerLease) insist(r *request) outcome {
	for {
		o := w.c.ask(w.ended, r, w.c.now()+w.c.cfg.Timeout, nil)
		if o.kind != gotTimeUp || w.ended.Err() != nil {
			return o
		}
	}
}

// changed wakes those that wait for a change. The caller holds the lock.
func (w *WorkerLease) changed() {
	close(w.renewed)
	w.renewed = make(chan struct{})
}

// generates is closed once the lease has a generator.
func (w *WorkerLease) generates() <-chan struct{} {
	has := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generator != nil {
		close(has)
		return has
	}
	return w.renewed
}

// replace leases another worker id, for the generator of a lost lease.
func (w *WorkerLease) replace() bool {
	w.mu.Lock()
	isWanted := w.generator != nil
	w.mu.Unlock()
	for isWanted {
		o := w.insist(w.request("", true))
		w.mu.Lock()
		if w.ended.Err() != nil {
			w.mu.Unlock()
			return false
		}
		if o.kind == gotGrant {
			w.current, w.lost = granted{o.grant, w.c.now()}, false
			w.answered = w.current.at
			w.highest = o.grant.fromMS - 1
			// The millisecond of the last id was of the lease before.
			w.generator.sequence = 1 << w.generator.layout.SequenceBits
			w.changed()
			w.mu.Unlock()
			return true
		}
		w.mu.Unlock()
		if !w.c.sleepUntil(w.ended, w.c.now()+renewAgain) {
			return false
		}
	}
	return true
}

// Close grants nothing more, and gives back what was not stamped. It waits for a node for one attempt at most; if that
// fails, the lease ends by itself. A second Close waits for the first.
func (w *WorkerLease) Close() { w.closing.Do(w.close) }

func (w *WorkerLease) close() {
	w.mu.Lock()
	w.closed = true
	lease, last, lost := w.current.lease, w.highest, w.lost
	w.changed()
	w.mu.Unlock()
	w.end()
	// Until then the client, if it is closed, waits for this lease.
	defer func() {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		delete(w.c.workers, w)
	}()
	if lost {
		return
	}
	body := `{"last_ms":"` + strconv.FormatInt(last, 10) + `"}`
	r := &request{kind: askGiveBack, method: "DELETE", path: w.path() + "/" + escape(lease), body: body}
	w.c.askBeyondClose(context.Background(), r, w.c.now()+w.c.cfg.AttemptTimeout, nil)
}

// Layout is how a generator makes ids.
type Layout struct {
	// EpochMS is the origin of times, in Unix milliseconds.
	EpochMS int64
	// WorkerBits and SequenceBits are the widths of the worker id and of the sequence.
	WorkerBits, SequenceBits int
}

// DefaultLayout has 41 bits of time, 10 of the worker id and 12 of the sequence.
var DefaultLayout = Layout{EpochMS: epochDefault, WorkerBits: 10, SequenceBits: 12}

// Generator makes snowflakes of a worker lease, without a request for any. Its time is the lease's own: the first
// millisecond when its answer arrived, and then by a monotonic clock.
type Generator struct {
	w      *WorkerLease
	layout Layout
	// The last id's time, and what is left of its sequence. The lease's lock guards both.
	last, sequence int64
}

// Format prints the worker id, as that of the lease does.
func (g *Generator) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "generator of %v", g.w) }

// Generator returns the lease's one generator, with [DefaultLayout].
func (w *WorkerLease) Generator() (*Generator, error) { return w.GeneratorOf(DefaultLayout) }

// GeneratorOf returns the lease's one generator. From then on the milliseconds are the generator's, and MayStamp grants
// none. Another layout than that of the first call is an invalid argument: a second generator could repeat ids.
func (w *WorkerLease) GeneratorOf(layout Layout) (*Generator, error) {
	timeBits := 63 - layout.WorkerBits - layout.SequenceBits
	if layout.WorkerBits < 0 || layout.SequenceBits < 0 || timeBits < 1 {
		return nil, invalid("a layout has 63 bits, at least one of them of time")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, leaseClosedError{}
	}
	if w.generator != nil && w.generator.layout != layout {
		return nil, invalid("the lease has a generator with another layout already")
	}
	if w.generator != nil {
		return w.generator, nil
	}
	if w.current.workerID >= 1<<layout.WorkerBits {
		return nil, invalid("worker id %d does not fit in %d bits", w.current.workerID, layout.WorkerBits)
	}
	if w.current.fromMS < layout.EpochMS {
		return nil, invalid("the lease begins before the epoch %d", layout.EpochMS)
	}
	// What MayStamp granted before is not used again.
	w.generator = &Generator{w: w, layout: layout, last: w.highest, sequence: 1 << layout.SequenceBits}
	w.changed()
	return w.generator, nil
}

// NextID makes the next id. It waits where the lease has no millisecond left, until a renewal or the end of ctx.
func (g *Generator) NextID(ctx context.Context) (int64, error) {
	w := g.w
	for {
		w.mu.Lock()
		id, isMade, err := g.next()
		renewed := w.renewed
		w.mu.Unlock()
		if isMade || err != nil {
			return id, err
		}
		timer := time.NewTimer(w.c.cfg.Timeout)
		select {
		case <-renewed:
			timer.Stop()
		case <-timer.C:
			return 0, unavailable("the lease has no millisecond left")
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		case <-w.ended.Done():
			timer.Stop()
			return 0, leaseClosedError{}
		}
	}
}

// next makes an id, unless the lease has no millisecond left. The caller holds the lease's lock.
func (g *Generator) next() (int64, bool, error) {
	w, l := g.w, g.layout
	if w.closed {
		return 0, false, leaseClosedError{}
	}
	at := max(g.last, w.current.fromMS+int64((w.c.now()-w.current.at)/time.Millisecond))
	if at == g.last && g.sequence == 1<<l.SequenceBits {
		at++
	}
	if at != g.last {
		if w.current.workerID >= 1<<l.WorkerBits {
			return 0, false, invalid("worker id %d does not fit in %d bits", w.current.workerID, l.WorkerBits)
		}
		if !w.stamp(at) {
			return 0, false, nil
		}
		if time := at - l.EpochMS; time >= 1<<(63-l.WorkerBits-l.SequenceBits) {
			return 0, false, unavailable("the bits of time are used up")
		}
		g.last, g.sequence = at, 0
	}
	id := ((g.last-l.EpochMS)<<l.WorkerBits|w.current.workerID)<<l.SequenceBits | g.sequence
	g.sequence++
	return id, true, nil
}
