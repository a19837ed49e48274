package mintleaf

import "time"

const (
	// A rate is measured over this long at least.
	elapsedMin = time.Millisecond
	// The largest factor between one size and the next, up or down.
	sizeStep = 4
)

// kind is what lines of tags share, and what the line of snowflakes has.
type kind struct {
	first, min, max int64
	// How long a lease is to last.
	lasts time.Duration
	// How long a lease may be used after its answer; 0: without end.
	freshFor time.Duration
	// Whether ids are known to be leasable before any answer says so.
	isLeased bool
}

// sizing chooses the sizes of the leases of one line.
type sizing struct {
	kind *kind
	// The last size, without what waiting calls wanted; 0 before the first.
	last    int64
	askedAt time.Duration
	// The size of the next lease, after a node has refused a larger one; 0: none.
	countMax int64
}

// next returns the size of a lease that is requested now. used ids were handed out since the last request for a lease;
// the calls that wait want waiting more.
func (s *sizing) next(now time.Duration, used, waiting int64) int64 {
	if countMax := s.countMax; countMax > 0 {
		s.countMax = 0
		if s.last > 0 {
			s.last = min(s.last, countMax)
		}
		s.askedAt = now
		return countMax
	}
	k := s.kind
	size := min(k.first, k.max)
	if s.last > 0 {
		elapsed := max(now-s.askedAt, elapsedMin)
		wanted := int64(min(float64(used)*float64(k.lasts)/float64(elapsed), float64(idMax)))
		size = min(max(wanted, s.last/sizeStep), s.last*sizeStep)
		size = min(max(size, min(k.min, k.max)), k.max)
	}
	s.last, s.askedAt = size, now
	return min(size+waiting, k.max)
}

// halve halves the next sizes, because a node reports too many ids.
func (s *sizing) halve() { s.last = max(s.last/2, min(s.last, 1)) }
