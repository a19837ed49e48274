// Takes ids through go-redis. With NODES CA TOKEN: of a cluster, until it is ended; prints each id beside its tag, and each
// error. With a node alone: of one server and of a cluster, without TLS and tokens.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	if len(os.Args) == 2 {
		inBothModes(ctx, os.Args[1])
		return
	}
	ca, err := os.ReadFile(os.Args[2])
	must(err)
	untilItIsEnded(ctx, strings.Split(os.Args[1], ","), ca, os.Args[3])
}

func untilItIsEnded(ctx context.Context, nodes []string, ca []byte, token string) {
	// nodes := []string{"a:6380", "b:6380", "c:6380"}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	ids := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:    nodes,
		Username: "shop", Password: token, TLSConfig: &tls.Config{RootCAs: roots},
		ClusterStateReloadInterval: time.Second, // by default a minute
		MaxRedirects:               16,          // attempts, for as long as it takes to read the slots anew
	})
	id, err := ids.Incr(ctx, "orders").Result()
	must(err)
	fmt.Println("orders", id)
	for {
		for n := range 30 {
			tag := fmt.Sprintf("orders-%d", n)
			if id, err := ids.Incr(ctx, tag).Result(); err == nil {
				fmt.Println(tag, id)
			} else {
				fmt.Println("error", err)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func inBothModes(ctx context.Context, node string) {
	one := redis.NewClient(&redis.Options{Addr: node})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node}})
	for _, ids := range []redis.UniversalClient{one, cluster} {
		first := ids.Incr(ctx, "go").Val()
		last, err := ids.IncrBy(ctx, "go", 5).Result()
		must(err)
		for _, pipelined := range []func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){ids.Pipelined, ids.TxPipelined} {
			taken, err := pipelined(ctx, func(pipe redis.Pipeliner) error {
				for range 30 {
					pipe.Incr(ctx, "go")
				}
				return nil
			})
			must(err)
			distinct := map[int64]bool{}
			for _, command := range taken {
				distinct[command.(*redis.IntCmd).Val()] = true
			}
			if first == 0 || last < first+5 || len(distinct) != 30 {
				panic(fmt.Sprint(first, last, distinct))
			}
		}
		if err := ids.Get(ctx, "nothing").Err(); !errors.Is(err, redis.Nil) {
			panic(err)
		}
		must(ids.Close())
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
