package io.mintleaf.benchmarks;

import com.xfvape.uid.exception.UidGenerateException;
import com.xfvape.uid.impl.CachedUidGenerator;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.WorkerSnowflakes;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import me.ahoo.cosid.segment.IdSegmentDistributor;
import me.ahoo.cosid.segment.SegmentChainId;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Threads;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Ids per microsecond of one thread, and of two together.
 *
 * <p>{@code counter} is the least that a call by name can cost: a look-up in a map of names, and an atomic
 * counter. CosId's {@code SegmentChainId} takes its segments from a counter in memory, uid-generator's
 * cached generator has its worker id set; the client of Mintleaf leases over HTTP from a server in this process.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(2)
@Warmup(iterations = 4, time = 1)
@Measurement(iterations = 6, time = 1)
public class NextId {
  private static final int TAGS = 20;

  private final ConcurrentHashMap<String, AtomicLong> counters = new ConcurrentHashMap<>();
  private final String tag = "orders";
  private LeasingServer server;
  private MintleafClient mintleaf;
  private WorkerSnowflakes workerSnowflakes;
  private SegmentChainId cosid;
  private CachedUidGenerator uid;

  @Setup(Level.Trial)
  public void start() throws Exception {
    server = new LeasingServer();
    mintleaf = MintleafClient.builder().endpoints(server.url()).build();
    for (int i = 0; i < TAGS; i++) {
      counters.put("tag-" + i, new AtomicLong());
      mintleaf.nextId("tag-" + i);
    }
    counters.put(tag, new AtomicLong());
    mintleaf.nextId(tag);
    workerSnowflakes = mintleaf.leaseWorker("any").generator();
    cosid = new SegmentChainId(new IdSegmentDistributor.Mock());
    uid = new CachedUidGenerator();
    uid.setWorkerIdAssigner(() -> 1);
    uid.setTimeBits(31); // its default of 28 bits ended in 2024
    uid.setWorkerBits(19);
    uid.afterPropertiesSet();
  }

  @TearDown(Level.Trial)
  public void stop() throws Exception {
    mintleaf.close();
    server.close();
    uid.destroy();
  }

  @Benchmark
  public long counter1() {
    return counters.get(tag).getAndIncrement();
  }

  @Benchmark
  @Threads(2)
  public long counter2() {
    return counters.get(tag).getAndIncrement();
  }

  @Benchmark
  public long mintleaf1() {
    return mintleaf.nextId(tag);
  }

  @Benchmark
  @Threads(2)
  public long mintleaf2() {
    return mintleaf.nextId(tag);
  }

  @Benchmark
  public long mintleafSnowflake1() {
    return mintleaf.nextSnowflake();
  }

  @Benchmark
  public long mintleafWorkerSnowflake1() {
    return workerSnowflakes.nextId();
  }

  @Benchmark
  @Threads(2)
  public long mintleafWorkerSnowflake2() {
    return workerSnowflakes.nextId();
  }

  @Benchmark
  public long cosidSegmentChain1() {
    return cosid.generate();
  }

  @Benchmark
  @Threads(2)
  public long cosidSegmentChain2() {
    return cosid.generate();
  }

  @Benchmark
  public long uidGeneratorCached1() {
    return nextUid();
  }

  @Benchmark
  @Threads(2)
  public long uidGeneratorCached2() {
    return nextUid();
  }

  /** Takes an id once the ring has one: it is filled more slowly than this empties it. */
  private long nextUid() {
    while (true) {
      try {
        return uid.getUID();
      } catch (UidGenerateException e) {
        Thread.yield();
      }
    }
  }
}
