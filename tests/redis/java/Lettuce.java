import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.StaticCredentialsProvider;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * Takes ids through Lettuce. With NODES CA TOKEN: of a cluster, until it is ended. With a node alone: of one server and of a
 * cluster, without TLS and tokens.
 */
class Lettuce {
    public static void main(String[] args) throws Exception {
        if (args.length == 1) inBothModes(RedisURI.create("redis://" + args[0]));
        else untilItIsEnded(args[0].split(","), args[2]);
    }

    static void untilItIsEnded(String[] addresses, String token) throws Exception {
        // addresses = { "a:6380", "b:6380", "c:6380" }
        List<RedisURI> nodes = new ArrayList<>();
        for (String address : addresses) {
            RedisURI node = RedisURI.create("rediss://" + address);
            node.setCredentialsProvider(new StaticCredentialsProvider("shop", token.toCharArray()));
            nodes.add(node);
        }
        RedisClusterClient client = RedisClusterClient.create(nodes);
        client.setOptions(ClusterClientOptions.builder()
            .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                .enablePeriodicRefresh(Duration.ofSeconds(1))
                .enableAllAdaptiveRefreshTriggers().build())
            .build());
        RedisAdvancedClusterCommands<String, String> ids = client.connect().sync();
        long id = ids.incr("orders");
        System.out.println("orders " + id);
        Ids.untilItIsEnded(ids::incr);
    }

    static void inBothModes(RedisURI node) {
        RedisClient one = RedisClient.create(node);
        RedisCommands<String, String> ids = one.connect().sync();
        long first = ids.incr("lettuce");
        Ids.check(ids.incrby("lettuce", 5) >= first + 5, first);
        ids.multi();
        for (int n = 0; n < 30; n++) ids.incr("lettuce");
        Ids.checkDistinct(30, ids.exec().stream().toList());
        Ids.check(ids.get("nothing") == null, "nothing");
        one.shutdown();
        RedisClusterClient cluster = RedisClusterClient.create(node);
        Ids.check(cluster.connect().sync().incr("lettuce") > first + 35, first);
        cluster.shutdown();
    }
}
