// Package benchmarks measures the client beside generators of the community. It is a module of its own, so that the
// client has no dependencies.
package benchmarks

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	bwmarrin "github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake"

	"mintleaf.dev/go"
)

// warm is how many ids are taken before the measure, until leases have their full size.
const warm = 3_000_000

// client asks a node that only counts.
func client(b *testing.B) *mintleaf.Client {
	var last atomic.Int64
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count, _ := strconv.ParseInt(r.URL.Query().Get("count"), 10, 64)
		end := last.Add(count) + 1
		if r.URL.Query().Get("format") == "ranges" {
			fmt.Fprintf(w, `{"ranges":[{"start":"%d","end":"%d"}]}`, end-count, end)
		} else {
			fmt.Fprintf(w, `{"ids":["%d"]}`, end-1)
		}
	}))
	b.Cleanup(node.Close)
	c, err := mintleaf.New(mintleaf.Config{Endpoints: []string{node.URL}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	for range warm {
		take(b, c, "orders")
		take(b, c, "users")
	}
	b.ReportAllocs()
	b.ResetTimer()
	return c
}

func take(b *testing.B, c *mintleaf.Client, tag string) {
	if _, err := c.NextID(context.Background(), tag); err != nil {
		b.Error(err)
	}
}

func BenchmarkNextID(b *testing.B) {
	c := client(b)
	for range b.N {
		take(b, c, "orders")
	}
}

func BenchmarkNextIDOfTwoTagsInTurn(b *testing.B) {
	c := client(b)
	for n := range b.N {
		take(b, c, [2]string{"orders", "users"}[n%2])
	}
}

func BenchmarkNextIDByGoroutines(b *testing.B) {
	c := client(b)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			take(b, c, "orders")
		}
	})
}

func BenchmarkTagByGoroutines(b *testing.B) {
	c := client(b)
	b.RunParallel(func(p *testing.PB) {
		orders := c.Tag("orders")
		for p.Next() {
			if _, err := orders.Next(context.Background()); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkNextIDsBy1000(b *testing.B) {
	c := client(b)
	for range b.N/1000 + 1 {
		if _, err := c.NextIDs(context.Background(), "orders", 1000); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBwmarrinSnowflake(b *testing.B) {
	node, err := bwmarrin.NewNode(1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for range b.N {
		node.Generate()
	}
}

func BenchmarkSonyflake(b *testing.B) {
	generator, err := sonyflake.New(sonyflake.Settings{MachineID: func() (uint16, error) { return 1, nil }})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for range b.N {
		if _, err := generator.NextID(); err != nil {
			b.Fatal(err)
		}
	}
}
