import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Response;
import redis.clients.jedis.UnifiedJedis;

/**
 * Takes ids through Jedis. With NODES CA TOKEN: of a cluster, until it is ended. With a node alone: of one server and of a
 * cluster, without TLS and tokens.
 */
class Jedis {
    public static void main(String[] args) throws Exception {
        if (args.length == 1) inBothModes(HostAndPort.from(args[0]));
        else untilItIsEnded(args[0].split(","), args[2]);
    }

    static void untilItIsEnded(String[] addresses, String token) throws Exception {
        Set<HostAndPort> nodes = Stream.of(addresses).map(HostAndPort::from).collect(Collectors.toSet());
        // nodes = Set.of(new HostAndPort("a", 6380), new HostAndPort("b", 6380), new HostAndPort("c", 6380))
        JedisClientConfig login =
            DefaultJedisClientConfig.builder().ssl(true).user("shop").password(token).build();
        JedisCluster ids = new JedisCluster(nodes, login);
        long id = ids.incr("orders");
        System.out.println("orders " + id);
        Ids.untilItIsEnded(ids::incr);
    }

    static void inBothModes(HostAndPort node) {
        try (UnifiedJedis one = new JedisPooled(node, DefaultJedisClientConfig.builder().build());
                UnifiedJedis cluster = new JedisCluster(node)) {
            for (UnifiedJedis ids : List.of(one, cluster)) {
                long first = ids.incr("jedis");
                Ids.check(ids.incrBy("jedis", 5) >= first + 5, first);
                List<Response<Long>> taken = new ArrayList<>();
                try (AbstractPipeline pipeline = ids.pipelined()) {
                    for (int n = 0; n < 30; n++) taken.add(pipeline.incr("jedis"));
                    pipeline.sync();
                }
                Ids.checkDistinct(30, taken.stream().map(Response::get).toList());
                Ids.check(ids.setnx("jedis", "5") == 0, "the tag is there");
                Ids.check(ids.get("nothing") == null, "nothing");
            }
        }
    }
}
