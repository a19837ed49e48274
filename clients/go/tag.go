package mintleaf

import "context"

const (
	// A handle takes one eighth of a lease at once.
	blocksOfALease = 8
	// The most ids that a handle takes at once.
	blockMax = 1 << 16
)

// Tag is ids of one tag for one goroutine, which takes them out of the client's lease in blocks, so that goroutines do not
// meet at one counter. Goroutines must not share it: each makes its own.
//
// The ids that it holds when it is dropped are wasted, at most an eighth of a lease. Once the client is closed, it hands
// out the rest of its block.
type Tag struct {
	next, end uint64
	c         *Client
	name      string
}

// Tag makes a handle of the tag for one goroutine, the fastest way to take millions of ids. An invalid tag is an error of
// its first Next.
func (c *Client) Tag(name string) *Tag { return &Tag{c: c, name: name} }

// Next returns the next id, as [Client.NextID] does.
func (t *Tag) Next(ctx context.Context) (int64, error) {
	if t.next < t.end {
		t.next++
		return int64(t.next - 1), nil
	}
	return t.nextOfABlock(ctx)
}

func (t *Tag) nextOfABlock(ctx context.Context) (int64, error) {
	if l := t.c.find(t.name); l != nil {
		if ids, ok := l.takeBlock(); ok {
			t.next, t.end = ids.start+1, ids.end
			return int64(ids.start), nil
		}
	}
	return t.c.NextID(ctx, t.name)
}

// takeBlock takes what a handle takes at once.
func (l *line) takeBlock() (idRange, bool) {
	s := l.current.Load()
	if s == nil {
		return idRange{}, false
	}
	// A lease that comes in between may be of another size, and its block as good as this.
	return l.take(s.block)
}
