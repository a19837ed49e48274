import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.BatchResult;
import org.redisson.api.RBatch;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Takes ids through Redisson. With NODES CA TOKEN: of a cluster, until it is ended. With a node alone: of one server and of a
 * cluster, without TLS and tokens.
 */
class RedissonIds {
    public static void main(String[] args) throws Exception {
        if (args.length == 1) inBothModes("redis://" + args[0]);
        else untilItIsEnded(Stream.of(args[0].split(",")).map(node -> "rediss://" + node).toArray(String[]::new), args[2]);
    }

    static void untilItIsEnded(String[] nodes, String token) throws Exception {
        // nodes = { "rediss://a:6380", "rediss://b:6380", "rediss://c:6380" }
        Config config = new Config();
        config.useClusterServers().addNodeAddress(nodes)
            .setUsername("shop").setPassword(token)
            .setScanInterval(1000).setMasterConnectionMinimumIdleSize(4);
        RedissonClient ids = Redisson.create(config);
        long id = ids.getAtomicLong("orders").incrementAndGet();
        System.out.println("orders " + id);
        Ids.untilItIsEnded(tag -> ids.getAtomicLong(tag).incrementAndGet());
    }

    static void inBothModes(String node) {
        Config one = new Config();
        one.useSingleServer().setAddress(node);
        Config cluster = new Config();
        cluster.useClusterServers().addNodeAddress(node);
        for (Config config : Stream.of(one, cluster).toList()) {
            RedissonClient ids = Redisson.create(config);
            long first = ids.getAtomicLong("redisson").incrementAndGet();
            Ids.check(ids.getAtomicLong("redisson").addAndGet(5) >= first + 5, first);
            RBatch batch = ids.createBatch();
            for (int n = 0; n < 30; n++) batch.getAtomicLong("redisson").incrementAndGetAsync();
            BatchResult<?> taken = batch.execute();
            Ids.checkDistinct(30, taken.getResponses());
            ids.shutdown();
        }
    }
}
