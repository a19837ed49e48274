package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client and real nodes, which are killed and rolled under it. */
@Timeout(180)
class RealNodesTest {
  private static RealNodes nodes;
  private static boolean zoned;

  @BeforeAll
  static void startNodes() throws Exception {
    zoned = RealNodes.know("--zone");
    nodes = zoned ? RealNodes.three("--drain", "1s", "--zone", "z{node}") : RealNodes.three("--drain", "1s");
  }

  @AfterAll
  static void endNodes() throws Exception {
    if (nodes != null) {
      nodes.close();
    }
  }

  private static MintleafClient client() {
    return MintleafClient.builder().endpoints(nodes.urls()).leaseMax(50).build();
  }

  @Test
  void nodeIsKilled() throws Exception {
    for (int node = 0; node < nodes.count(); node++) {
      try (MintleafClient client = client(); Load load = new Load(client)) {
        load.awaitMore(100);
        nodes.kill(node);
        load.awaitMore(1_000);
        nodes.start(node);
        nodes.awaitReady(node);
        load.end();
        assertTrue(client.stats().leases() > 5, "leases were taken all the while");
      }
    }
  }

  @Test
  void nodesAreRolled() throws Exception {
    try (MintleafClient client = client(); Load load = new Load(client)) {
      load.awaitMore(100);
      for (int node = 0; node < nodes.count(); node++) {
        nodes.stop(node);
        load.awaitMore(500);
        nodes.start(node);
        nodes.awaitReady(node);
        load.awaitMore(500);
      }

      load.end();
      assertTrue(client.stats().leases() > 20, "leases were taken all the while");
    }
  }

  /**
   * MINTLEAF_SECONDS: how long; three turns at least, and three minutes are more than 10^8 ids. The auth file is another one
   * after each turn, and memory has not grown.
   */
  @Test
  @Timeout(3_600)
  void nodesAreKilledHungAndRolledWhileTheirAuthFileChanges() throws Exception {
    Path auth = Files.createTempFile("mintleaf-auth-", ".toml");
    admit(auth, "client", "other-0");
    try (RealNodes nodes = RealNodes.three("--drain", "1s", "--auth-file", auth.toString());
        MintleafClient client = MintleafClient.builder().endpoints(nodes.urls()).token("client")
            .callTimeout(Duration.ofSeconds(60)).build();
        Load load = new Load(client, new Many(client))) {
      String wanted = System.getenv("MINTLEAF_SECONDS");
      long end = System.nanoTime() + (wanted == null ? 8 : Long.parseLong(wanted)) * 1_000_000_000L;
      List<Look> looks = new ArrayList<>();
      int turn = 0;
      for (; System.nanoTime() < end || turn < 3; turn++) {
        int node = (turn + turn / 3) % 3;
        if (turn % 3 == 1) {
          nodes.hang(node);
        } else {
          if (turn % 3 == 0) {
            nodes.kill(node);
          } else {
            nodes.stop(node);
          }
          nodes.start(node);
        }
        nodes.awaitReady(node);
        admit(auth, "client", "other-" + (turn + 1));
        for (int each = 0; each < nodes.count(); each++) {
          nodes.signal(each, "HUP");
        }
        load.awaitMore(200);
        looks.add(new Look(load.many.count + load.taken.get()));
      }
      load.end();
      System.out.println(turn + " turns, " + load.taken.get() + " ids by ones, " + load.many);
      Look.judge(looks, load.taken.get());
    } finally {
      Files.delete(auth);
    }
  }

  /** What this process takes after so many ids. What it has in all comes and goes with the collector's wishes. */
  private static final class Look {
    /** What memory may grow by, beside the ids that a test keeps. 10^8 ids that a client kept would be many times more. */
    private static final long HEAP_GROWTH_MAX_MIB = 32;
    /** The memory of an id in a set. */
    private static final long KEPT_BYTES = 100;

    private final long ids;
    private final long heapMib;
    private final long residentMib;

    Look(long ids) throws Exception {
      this.ids = ids;
      System.gc();
      heapMib = (Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory()) >> 20;
      String status = new String(Files.readAllBytes(Paths.get("/proc/self/status")), "UTF-8");
      residentMib = Long.parseLong(status.replaceAll("(?s).*VmRSS:\\s+(\\d+) kB.*", "$1")) >> 10;
    }

    static void judge(List<Look> looks, long kept) {
      Look first = looks.get(0);
      Look last = looks.get(looks.size() - 1);
      System.out.println(first + "; " + looks.get(looks.size() / 2) + "; " + last);
      long mayGrow = HEAP_GROWTH_MAX_MIB + (kept * KEPT_BYTES >> 20);
      assertTrue(last.heapMib - first.heapMib < mayGrow, looks::toString);
    }

    @Override
    public String toString() {
      return "after " + ids + " ids " + heapMib + " MiB of heap, " + residentMib + " MiB in all";
    }
  }

  private static void admit(Path file, String... tokens) throws Exception {
    StringBuilder text = new StringBuilder();
    for (String token : tokens) {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(token.getBytes("UTF-8"));
      text.append(String.format("[[token]]%nname = \"%s\"%nrole = \"issue\"%nhash = \"sha256:%064x\"%n",
          token, new BigInteger(1, digest)));
    }
    Path fresh = Files.createTempFile(file.getParent(), "mintleaf-auth-", ".new");
    Files.write(fresh, text.toString().getBytes("UTF-8"));
    Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  /** Ids, ten thousand at a time, as runs of consecutive ones: none comes twice. */
  private static final class Many {
    private final MintleafClient client;
    private final TreeMap<Long, Long> runs = new TreeMap<>(); // the first id, and that behind the last
    private volatile long count;

    Many(MintleafClient client) {
      this.client = client;
    }

    void take() {
      long[] ids = client.nextIds("many", 10_000);
      for (long id : ids) {
        Map.Entry<Long, Long> before = runs.floorEntry(id);
        assertTrue(before == null || before.getValue() <= id, "twice: " + id);
        boolean goesOn = before != null && before.getValue() == id;
        runs.put(goesOn ? before.getKey() : id, id + 1);
      }
      count += ids.length;
    }

    @Override
    public String toString() {
      return count + " ids in " + runs.size() + " runs";
    }
  }

  @Test
  void idsOfEveryKindComeFromRealNodes() throws Exception {
    try (MintleafClient client = client()) {
      assertEquals(1, client.nextId("plain"));
      assertEquals("2", client.nextText("plain"));
      long[] ids = client.nextIds("caf\u00e9/.. \u4e2d", 10_000);
      assertEquals(1, ids[0]);
      assertEquals(10_000, ids[9_999]);
      Set<Long> snowflakes = new HashSet<>();
      for (int i = 0; i < 50_000; i++) {
        assertTrue(snowflakes.add(client.nextSnowflake()));
      }
      MintleafException failure = assertThrows(MintleafException.class, () -> client.nextId("no-sequence", "key"));
      assertEquals(404, failure.status());
      assertTrue(client.isReady());
    }
  }

  @Test
  void zonesOfRealNodesAreLearned() throws Exception {
    assumeTrue(zoned, "SKIPPED: this binary has no --zone");
    try (MintleafClient client = MintleafClient.builder().endpoints(nodes.urls()).zone("z2").build()) {
      List<Endpoint> endpoints = client.control().endpoints.all();
      long end = System.nanoTime() + 20_000_000_000L;
      while (endpoints.stream().anyMatch(endpoint -> endpoint.zone() == null)) {
        assertTrue(System.nanoTime() < end, "no zones after 20 s");
        Thread.sleep(20);
      }
      for (Endpoint endpoint : endpoints) {
        assertEquals("z" + (nodes.urls().indexOf(endpoint.toString()) + 1), endpoint.zone());
      }
      assertEquals(nodes.urls().get(1), client.control().endpoints.pick(System.nanoTime()).toString());
    }
  }

  /** Threads that take ids of a tag and snowflakes without a pause, and that no call may fail. */
  private static final class Load implements AutoCloseable {
    private final MintleafClient client;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Future<?>> running = new ArrayList<>();
    private final AtomicBoolean over = new AtomicBoolean();
    private final AtomicLong taken = new AtomicLong();
    /** All that were ever taken here: by clients before, too. */
    private static final Set<Long> IDS = ConcurrentHashMap.newKeySet();
    private static final Set<Long> SNOWFLAKES = ConcurrentHashMap.newKeySet();

    private final Many many;

    Load(MintleafClient client) {
      this(client, null);
    }

    Load(MintleafClient client, Many many) {
      this.client = client;
      this.many = many;
      if (many != null) {
        running.add(threads.submit(() -> {
          while (!over.get()) {
            many.take();
            Thread.sleep(1);
          }
          return null;
        }));
      }
      Set<Long> ids = many == null ? IDS : ConcurrentHashMap.newKeySet(); // with many, the nodes are others
      Set<Long> snowflakes = many == null ? SNOWFLAKES : ConcurrentHashMap.newKeySet();
      for (int i = 0; i < (many == null ? 2 : 12); i++) {
        running.add(threads.submit(() -> run(ids, () -> client.nextId("orders"))));
      }
      for (int i = 0; i < (many == null ? 1 : 4); i++) {
        running.add(threads.submit(() -> run(snowflakes, client::nextSnowflake)));
      }
    }

    private interface Next {
      long id();
    }

    private Void run(Set<Long> all, Next next) throws InterruptedException {
      while (!over.get()) {
        long id = next.id();
        assertTrue(all.add(id), "twice: " + id);
        taken.incrementAndGet();
        Thread.sleep(1);
      }
      return null;
    }

    void awaitMore(long count) throws Exception {
      long goal = taken.get() + count;
      while (taken.get() < goal) {
        for (Future<?> each : running) {
          if (each.isDone()) {
            each.get();
          }
        }
        Thread.sleep(5);
      }
    }

    void end() throws ExecutionException, InterruptedException {
      over.set(true);
      for (Future<?> each : running) {
        each.get();
      }
    }

    @Override
    public void close() {
      over.set(true);
      threads.shutdownNow();
    }
  }
}
