// Package mintleaf takes ids from a Mintleaf cluster.
//
// A [Client] asks a node for many ids at once and hands them out from memory, so that an id costs no request. It goes to
// the next node when one fails, and never hands out an id twice: what a lost answer held is wasted.
//
//	c, err := mintleaf.New(mintleaf.Config{Endpoints: []string{"http://a:8080", "http://b:8080"}})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	id, err := c.NextID(ctx, "orders")
//
// The rules that make ids unique, and what a client asks for and when, are in docs/clients.md of Mintleaf.
package mintleaf
