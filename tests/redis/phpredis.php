<?php
// Takes ids through phpredis. With NODES CA TOKEN: of a cluster, until it is ended; prints each id beside its tag, and each
// error. With a node alone: of one server and of a cluster, without TLS and tokens.
// $nodes = ['tls://a:6380', 'tls://b:6380', 'tls://c:6380']
function next_id(string $tag, array $nodes, string $ca, string $token): int
{
    static $ids = null;
    for ($left = 4; ; $left--) {
        try {
            $ids ??= new RedisCluster(null, $nodes, 1, 5, false, ['shop', $token], ['cafile' => $ca]);
            $id = $ids->incr($tag);
            break;
        } catch (RedisException | RedisClusterException $error) {
            $left > 0 || throw $error;
            $ids = null; // It would never again ask a node that it has lost.
            usleep(100_000);
        }
    }
    return $id !== false ? $id : throw new RuntimeException($ids->getLastError());
}

function until_it_is_ended(array $nodes, string $ca, string $token): never
{
    $nodes = array_map(fn ($node) => "tls://$node", $nodes);
    $id = next_id('orders', $nodes, $ca, $token);
    echo "orders $id\n";
    try {
        next_id('customers', $nodes, $ca, $token);
        exit('a tag that the token does not name has ids');
    } catch (RuntimeException $refusal) {
        str_contains($refusal->getMessage(), 'NOPERM') || throw $refusal;
    }
    for (;;) {
        for ($n = 0; $n < 30; $n++) {
            try {
                $id = next_id("orders-$n", $nodes, $ca, $token);
                echo "orders-$n $id\n";
            } catch (RuntimeException $error) {
                echo 'error ', $error->getMessage(), "\n";
            }
        }
        usleep(100_000);
    }
}

function in_both_modes(string $node): void
{
    [$host, $port] = explode(':', $node);
    $one = new Redis();
    $one->connect($host, (int) $port);
    $cluster = new RedisCluster(null, [$node]);
    foreach ([$one, $cluster] as $ids) {
        $first = $ids->incr('php');
        check($ids->incrBy('php', 5) >= $first + 5);
        $pipe = $ids->multi();
        for ($n = 0; $n < 30; $n++) {
            $pipe->incr('php');
        }
        check(count(array_unique($pipe->exec())) === 30);
        check($ids->get('nothing') === false);
    }
}

function check(bool $holds): void
{
    $holds || throw new LogicException('it does not hold');
}

$argc === 2 ? in_both_modes($argv[1]) : until_it_is_ended(explode(',', $argv[1]), $argv[2], $argv[3]);
