"""Takes ids through redis-py. With NODES CA TOKEN: of a cluster, until it is ended; prints each id beside its tag, and each
error. With a node alone: of one server and of a cluster, without TLS and tokens."""

import sys
import time

import redis
from redis.cluster import ClusterNode, RedisCluster

nodes = [ClusterNode(*node.split(":")) for node in sys.argv[1].split(",")]


def until_it_is_ended(ca, token):
    # nodes = [ClusterNode("a", 6380), ClusterNode("b", 6380), ClusterNode("c", 6380)]
    ids = RedisCluster(
        startup_nodes=nodes, ssl=True, ssl_ca_certs=ca, username="shop", password=token
    )
    id = ids.incr("orders")
    print("orders", id)
    while True:
        for tag in (f"orders-{n}" for n in range(30)):
            try:
                print(tag, ids.incr(tag))
            except redis.RedisError as error:
                print("error", repr(error))
            except redis.exceptions.RedisClusterException as error:
                # redis-py 4.3, which Debian 12 has, cannot copy its own settings when it comes back to a first node.
                if "cannot pickle" not in str(error):
                    print("error", repr(error))
        sys.stdout.flush()
        time.sleep(0.1)


def in_both_modes():
    one = redis.Redis(host=nodes[0].host, port=nodes[0].port)
    for ids in (one, RedisCluster(startup_nodes=nodes)):
        first = ids.incr("python")
        assert ids.incrby("python", 5) >= first + 5
        pipe = ids.pipeline()
        for _ in range(30):
            pipe.incr("python")
        taken = pipe.execute()
        assert len(set(taken)) == 30 and min(taken) > first + 5, taken
        assert ids.exists("python") == 1 and ids.get("nothing") is None


if len(sys.argv) == 2:
    in_both_modes()
else:
    until_it_is_ended(*sys.argv[2:])
