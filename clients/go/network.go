package mintleaf

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	requestsMax = 64
	zones       = 60 * time.Second
)

// ask asks one endpoint after another until one answers, the deadline passes, or the client is closed.
func (c *Client) ask(ctx context.Context, r *request, deadline time.Duration, l *line) outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	return c.askBeyondClose(ctx, r, deadline, l)
}

// askBeyondClose goes on while the client closes. l is the line, if there is one: it learns of failed attempts, and knows
// where a rate limit is used up. An attempt that the deadline cuts short has met nothing: the error is that of the last one
// before it.
func (c *Client) askBeyondClose(ctx context.Context, r *request, deadline time.Duration, l *line) outcome {
	last := unavailable("no answer yet")
	endpoint, at, isPinned := 0, time.Duration(0), false
	if l != nil {
		endpoint, at, isPinned = l.limited(c.now())
	}
	for isFirst := true; ; isFirst = false {
		if !isPinned {
			endpoint, at = c.endpoints.pick(c.now())
			if isFirst {
				at = c.now()
			}
		}
		isPinned = false
		if !c.sleepUntil(ctx, min(at, deadline)) {
			return outcome{kind: gotTimeUp, err: c.ended(ctx)}
		}
		if c.now() >= deadline {
			return outcome{kind: gotTimeUp, err: last}
		}
		o := c.attempt(ctx, endpoint, r, deadline)
		switch o.kind {
		case gotTimeUp:
			if o.err == nil {
				o.err = last
			}
			return o
		case gotRateLimited:
			at, isPinned = c.now()+o.wait, true
			if l != nil {
				l.rateLimited(endpoint, at)
			}
			last = o.refused
		case gotFailure:
			last = unavailable(c.transport.addresses[endpoint].authority + ": " + o.err.Error())
		default:
			return o
		}
		if l != nil {
			l.hasMet(last)
		}
	}
}

// ended says why a call ends before its deadline.
func (c *Client) ended(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
}

// error is the error of a call whose request had another outcome than it asked for.
func (o outcome) error(context.Context) error {
	switch {
	case o.kind == gotRefusal:
		return o.refused
	case o.err != nil:
		return o.err
	default:
		return unavailable(errNotUnderstood.Error())
	}
}

// sleepUntil reports whether the time came before the context ended.
func (c *Client) sleepUntil(ctx context.Context, at time.Duration) bool {
	wait := at - c.now()
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt is one attempt. Its outcome is noted for the endpoint, unless time is up: for the client or the context with an
// error, for the deadline without one.
func (c *Client) attempt(ctx context.Context, endpoint int, r *request, deadline time.Duration) outcome {
	left := deadline - c.now()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case c.requests <- struct{}{}:
		defer func() { <-c.requests }()
	case <-timer.C:
		return outcome{kind: gotTimeUp}
	case <-ctx.Done():
		return outcome{kind: gotTimeUp, err: c.ended(ctx)}
	}
	c.counters.requests.Add(1)
	end := c.now() + c.cfg.AttemptTimeout
	timed, stop := context.WithTimeout(ctx, min(c.cfg.AttemptTimeout, deadline-c.now()))
	defer stop()
	a, err := c.transport.ask(timed, endpoint, r)
	switch {
	case err == nil:
		o := read(r, a)
		if o.kind == gotFailure {
			c.failed(endpoint, o.wait, o.err)
		} else {
			c.answered(endpoint)
		}
		return o
	case ctx.Err() != nil:
		return outcome{kind: gotTimeUp, err: c.ended(ctx)}
	case timed.Err() != nil && end > deadline:
		// The endpoint is not to blame when the call's own deadline passes.
		return outcome{kind: gotTimeUp}
	case timed.Err() != nil:
		err = fmt.Errorf("no answer within %v", c.cfg.AttemptTimeout)
	}
	c.failed(endpoint, 0, err)
	return outcome{kind: gotFailure, err: err}
}

func (c *Client) failed(endpoint int, asked time.Duration, err error) {
	c.counters.failures.Add(1)
	if c.endpoints.failed(endpoint, c.now(), asked) && c.away.CompareAndSwap(false, true) && c.cfg.Logger != nil {
		c.cfg.Logger.Warn("no node answers; held ids are still handed out", "endpoint", c.cfg.Endpoints[endpoint], "error", err)
	}
}

func (c *Client) answered(endpoint int) {
	c.endpoints.answered(endpoint)
	if c.away.CompareAndSwap(true, false) && c.cfg.Logger != nil {
		c.cfg.Logger.Info("a node answers again", "endpoint", c.cfg.Endpoints[endpoint])
	}
}

// watchZones asks every endpoint for its zone, again and again. A zone stays as it was when no answer comes.
func (c *Client) watchZones() {
	defer c.flights.Done()
	for {
		for endpoint := range c.cfg.Endpoints {
			c.askZone(endpoint)
		}
		pause := time.Duration(float64(zones) * (0.9 + c.endpoints.rand()/5))
		if !c.sleepUntil(c.ctx, c.now()+pause) {
			return
		}
	}
}

func (c *Client) askZone(endpoint int) {
	select {
	case c.requests <- struct{}{}:
		defer func() { <-c.requests }()
	case <-c.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.AttemptTimeout)
	defer cancel()
	a, err := c.transport.ask(ctx, endpoint, &request{kind: askCluster, method: "GET", path: "/v1/cluster"})
	if err != nil || a.status != http.StatusOK {
		return
	}
	if zone, isKnown := zone(a); isKnown {
		c.endpoints.setInZone(endpoint, zone == c.cfg.Zone)
	}
}
