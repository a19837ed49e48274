package io.mintleaf.cosidcallers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import me.ahoo.cosid.IdGenerator;
import me.ahoo.cosid.segment.DefaultSegmentId;
import me.ahoo.cosid.segment.SegmentChainId;
import me.ahoo.cosid.spring.redis.SpringRedisIdSegmentDistributor;
import org.junit.jupiter.api.Test;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisClusterConnection;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;

/** Programs with CosId, as Spring configures it for a cluster of Redis, on three nodes of which the one that they ask is killed. */
class CosIdCallersTest {
    private static final int PROGRAMS = 4;
    private static final int IDS = 20_000;
    private static final int STEP = 100;
    /** How long a caller tries again for one id. */
    private static final long RETRY_NANOS = Duration.ofSeconds(15).toNanos();

    private final AtomicInteger given = new AtomicInteger();
    private final AtomicInteger retries = new AtomicInteger();

    @Test
    void noIdIsGivenTwiceWhileANodeIsKilled() throws Exception {
        List<String> nodes = Arrays.asList(System.getProperty("resp.nodes").split(","));
        String[] pids = System.getProperty("pids").split(",");
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<List<Long>>> callers = new ArrayList<>();
        for (int program = 0; program < PROGRAMS; program++) {
            SpringRedisIdSegmentDistributor distributor =
                new SpringRedisIdSegmentDistributor("shop", "orders", 0, STEP, template(nodes));
            assertEquals("cosid:{shop.orders}.adder", distributor.getAdderKey());
            boolean chained = program % 2 == 0;
            IdGenerator ids = chained ? new SegmentChainId(distributor) : new DefaultSegmentId(distributor);
            callers.add(threads.submit(() -> taken(ids)));
        }
        while (given.get() < PROGRAMS * IDS / 4) {
            assertTrue(callers.stream().noneMatch(Future::isDone), "a caller ended early");
            Thread.sleep(1);
        }
        String asked = nodeOf("cosid:{shop.orders}.adder", template(nodes));
        long pid = Long.parseLong(pids[nodes.indexOf(asked)]);
        assertTrue(ProcessHandle.of(pid).orElseThrow().destroyForcibly());
        int givenBefore = given.get();
        Set<Long> all = new HashSet<>();
        for (Future<List<Long>> caller : callers) {
            long last = 0;
            for (long id : caller.get()) {
                assertTrue(id > last, "ids of one generator rise: " + last + ", " + id);
                assertTrue(all.add(id), id + " is given twice");
                last = id;
            }
        }
        assertEquals(PROGRAMS * IDS, all.size());
        assertTrue(givenBefore < PROGRAMS * IDS, "the node was killed after the last id");
        System.out.println("CosId: " + all.size() + " ids, " + (all.size() - givenBefore)
            + " of them after the kill, " + retries + " retries");
    }

    private List<Long> taken(IdGenerator ids) throws InterruptedException {
        List<Long> taken = new ArrayList<>(IDS);
        while (taken.size() < IDS) {
            taken.add(next(ids));
            given.incrementAndGet();
            if (taken.size() % STEP == 0) {
                Thread.sleep(5);
            }
        }
        return taken;
    }

    private long next(IdGenerator ids) throws InterruptedException {
        long began = System.nanoTime();
        while (true) {
            try {
                return ids.generate();
            } catch (RuntimeException failed) {
                retries.incrementAndGet();
                if (System.nanoTime() - began > RETRY_NANOS) {
                    throw failed;
                }
                Thread.sleep(20);
            }
        }
    }

    /** The node that clients ask for a tag. */
    private static String nodeOf(String tag, StringRedisTemplate template) {
        try (RedisClusterConnection connection = template.getRequiredConnectionFactory().getClusterConnection()) {
            return connection.clusterGetNodeForKey(tag.getBytes(StandardCharsets.UTF_8)).asString();
        }
    }

    private static StringRedisTemplate template(List<String> nodes) {
        ClusterTopologyRefreshOptions refresh = ClusterTopologyRefreshOptions.builder()
            .enableAllAdaptiveRefreshTriggers()
            .enablePeriodicRefresh(Duration.ofSeconds(1))
            .build();
        LettuceClientConfiguration client = LettuceClientConfiguration.builder()
            .commandTimeout(Duration.ofSeconds(2))
            .clientOptions(ClusterClientOptions.builder().topologyRefreshOptions(refresh).build())
            .build();
        LettuceConnectionFactory factory =
            new LettuceConnectionFactory(new RedisClusterConfiguration(nodes), client);
        factory.afterPropertiesSet();
        factory.start();
        return new StringRedisTemplate(factory);
    }
}
