import java.time.Duration;
import java.util.List;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.support.atomic.RedisAtomicLong;

import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;

/**
 * Takes ids through Spring Data Redis. With NODES CA TOKEN: of a cluster, until it is ended. With a node alone: of one server
 * and of a cluster, without TLS and tokens.
 */
class Spring {
    public static void main(String[] args) throws Exception {
        if (args.length == 1) inBothModes(args[0]);
        else untilItIsEnded(List.of(args[0].split(",")), args[2]);
    }

    static void untilItIsEnded(List<String> addresses, String token) throws Exception {
        // addresses = List.of("a:6380", "b:6380", "c:6380")
        RedisClusterConfiguration nodes = new RedisClusterConfiguration(addresses);
        nodes.setUsername("shop");
        nodes.setPassword(token);
        LettuceConnectionFactory factory = new LettuceConnectionFactory(nodes,
            LettuceClientConfiguration.builder().useSsl().and()
                .clientOptions(ClusterClientOptions.builder()
                    .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                        .enablePeriodicRefresh(Duration.ofSeconds(1))
                        .enableAllAdaptiveRefreshTriggers().build())
                    .build())
                .build());
        StringRedisTemplate ids = new StringRedisTemplate(started(factory));
        long id = ids.opsForValue().increment("orders");
        System.out.println("orders " + id);
        Ids.untilItIsEnded(tag -> ids.opsForValue().increment(tag));
    }

    static void inBothModes(String node) {
        RedisStandaloneConfiguration alone =
            new RedisStandaloneConfiguration(node.split(":")[0], Integer.parseInt(node.split(":")[1]));
        LettuceConnectionFactory one =
            started(new LettuceConnectionFactory(alone));
        LettuceConnectionFactory cluster =
            started(new LettuceConnectionFactory(new RedisClusterConfiguration(List.of(node))));
        for (LettuceConnectionFactory factory : List.of(one, cluster)) {
            StringRedisTemplate ids = new StringRedisTemplate(factory);
            long first = ids.opsForValue().increment("spring");
            Ids.check(ids.opsForValue().increment("spring", 5) >= first + 5, first);
            Ids.checkDistinct(30, ids.executePipelined((RedisCallback<Object>) connection -> {
                for (int n = 0; n < 30; n++) connection.stringCommands().incr("spring".getBytes());
                return null;
            }));
            RedisAtomicLong counter = new RedisAtomicLong("spring-" + factory.isClusterAware(), factory);
            Ids.check(counter.incrementAndGet() == 1 && counter.getAndIncrement() == 1, counter);
            Ids.check(counter.addAndGet(5) == 7, counter);
            // Another process makes the same counter, and goes on.
            Ids.check(new RedisAtomicLong("spring-" + factory.isClusterAware(), factory).incrementAndGet() == 8, counter);
            factory.destroy();
        }
    }

    static LettuceConnectionFactory started(LettuceConnectionFactory factory) {
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }
}
