package mintleaf

import (
	"math/rand"
	"slices"
	"sync"
	"time"
)

const (
	restMin = 50 * time.Millisecond
	restMax = 5 * time.Second
)

// endpoints chooses the endpoint to ask next. An endpoint that has failed rests for a while.
type endpoints struct {
	mu    sync.Mutex
	order []*endpointState
	rand  func() float64
}

type endpointState struct {
	number     int
	inZone     bool
	failures   int // since the last answer
	restsUntil time.Duration
}

func newEndpoints(count int) *endpoints {
	e := &endpoints{rand: rand.Float64}
	for _, number := range rand.Perm(count) {
		e.order = append(e.order, &endpointState{number: number})
	}
	return e
}

// pick returns the endpoint to ask, and the end of its rest.
func (e *endpoints) pick(now time.Duration) (int, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.order[0]
	for _, one := range e.order {
		if one.restsUntil <= now {
			return one.number, one.restsUntil
		}
		if one.restsUntil < first.restsUntil {
			first = one
		}
	}
	return first.number, first.restsUntil
}

// failed lets an endpoint rest; asked is the rest that its answer requested. It reports whether all endpoints rest now.
func (e *endpoints) failed(number int, now, asked time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := true
	for _, one := range e.order {
		if one.number == number {
			rest := min(restMin<<min(one.failures, 16), restMax)
			rest = max(time.Duration(float64(rest)*(0.5+e.rand()/2)), min(asked, restMax))
			one.failures++
			one.restsUntil = max(one.restsUntil, now+rest)
		}
		all = all && one.failures > 0
	}
	return all
}

func (e *endpoints) answered(number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.order {
		if one.number == number {
			one.failures = 0
		}
	}
}

func (e *endpoints) setInZone(number int, inZone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.order {
		if one.number == number {
			one.inZone = inZone
		}
	}
	slices.SortStableFunc(e.order, func(a, b *endpointState) int {
		switch {
		case a.inZone == b.inZone:
			return 0
		case a.inZone:
			return -1
		default:
			return 1
		}
	})
}
