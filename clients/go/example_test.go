package mintleaf_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"mintleaf.dev/go"
)

func Example() {
	c, err := mintleaf.New(mintleaf.Config{Endpoints: []string{"http://a:8080", "http://b:8080", "http://c:8080"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	id, err := c.NextID(context.Background(), "orders")
	var refused *mintleaf.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Code == "unknown_tag":
		log.Fatal("create the tag first: mintleaf tag create orders")
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(id)
}

func ExampleClient_LeaseWorker() {
	c, err := mintleaf.New(mintleaf.Config{Endpoints: []string{"http://a:8080"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	lease, err := c.LeaseWorker(ctx, "shops", mintleaf.LeaseSeconds(60))
	if err != nil {
		log.Fatal(err)
	}
	generator, err := lease.Generator()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(generator.NextID(ctx))
}
