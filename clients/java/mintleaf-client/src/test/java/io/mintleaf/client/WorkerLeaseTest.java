package io.mintleaf.client;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.mintleaf.client.ScriptedNode.Reply;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Leases of worker ids, their generators, and registers, against scripted nodes and a clock that the test steps. */
@Timeout(60)
class WorkerLeaseTest {
  private static final long FROM = 1_795_500_000_000L;
  private static final String LEASES = "POST /v1/pools/shops/leases ";

  private final List<AutoCloseable> opened = new ArrayList<>();
  private final AtomicLong stepped = new AtomicLong();

  @AfterEach
  void closeAll() throws Exception {
    Collections.reverse(opened);
    for (AutoCloseable each : opened) {
      each.close();
    }
  }

  @Test
  void aLeaseIsAskedForRenewedAndGivenBack() throws Exception {
    Pool pool = new Pool(5);
    ScriptedNode node = node(pool);
    MintleafClient client = client(node);
    WorkerLease lease = client.leaseWorker("shops", 5, "shop \"7\" caf\u00e9");

    assertEquals("shops", lease.pool());
    assertEquals(17, lease.workerId());
    assertEquals(FROM, lease.fromMs());
    assertEquals(FROM + 5_000, lease.untilMs());
    long begun = System.nanoTime();
    eventually(() -> lease.untilMs() > FROM + 5_000);
    long after = millis(System.nanoTime() - begun);
    assertTrue(after > 2_000 && after < 4_500, "renewed after " + after + " ms, not at half");
    lease.close();
    lease.close();

    assertEquals(Arrays.asList(
        LEASES + "{\"seconds\":5,\"holder\":\"shop \\u00227\\u0022 caf\u00e9\"}",
        "POST /v1/pools/shops/leases/17-a1 {\"seconds\":5}",
        "DELETE /v1/pools/shops/leases/17-a1 {\"last_ms\":\"" + (FROM - 1) + "\"}"), node.requests());
  }

  @Test
  void anotherLeaseHasTheNameOfTheProcessAndAMinute() throws Exception {
    ScriptedNode node = node(new Pool(60));
    client(node).leaseWorker("shops");
    String asked = node.requests().get(0);
    assertTrue(asked.matches(".*\\{\"seconds\":60,\"holder\":\"[^\"]+-[0-9]+\"\\}"), asked);
  }

  @Test
  void onlyMillisecondsOfTheLeaseMayBeStamped() throws Exception {
    ScriptedNode node = node(new Pool(60));
    WorkerLease lease = client(node).leaseWorker("shops");

    assertFalse(lease.mayStamp(FROM - 1));
    assertTrue(lease.mayStamp(FROM));
    assertTrue(lease.mayStamp(FROM + 59_999));
    assertFalse(lease.mayStamp(FROM + 60_000));
    assertTrue(lease.mayStamp(FROM + 30_000), "the highest is remembered, and bars no other");
    lease.close();

    assertFalse(lease.mayStamp(FROM + 30_000), "closed");
    assertEquals("{\"last_ms\":\"" + (FROM + 59_999) + "\"}", lastOf(node).split(" ", 3)[2]);
  }

  @Test
  void nothingIsStampedAfterAPauseOverTheEnd() throws Exception {
    ScriptedNode node = node(new Pool(60));
    MintleafClient client = client(builder().callTimeout(Duration.ofMillis(200)), node);
    WorkerLease lease = client.leaseWorker("shops");
    WorkerSnowflakes ids = lease.generator();
    step(59_990);
    assertTrue(timeOf(ids.nextId()) >= FROM + 59_990);

    step(60_000);
    MintleafException failure = assertThrows(MintleafException.class, ids::nextId);

    assertEquals("unavailable", failure.code());
    lease.close();
    long last = Long.parseLong(lastOf(node).replaceAll(".*\"([0-9]+)\".*", "$1"));
    assertTrue(last >= FROM + 59_990 && last < FROM + 60_000, "stamped at " + last);
  }

  @Test
  void idsShowTheLeasesOwnTimeAndRise() throws Exception {
    MintleafClient client = client(node(new Pool(60)));
    WorkerSnowflakes ids = client.leaseWorker("shops").generator();
    assertEquals(17, ids.workerId());
    long before = 0;
    for (long ms : new long[] {0, 1, 1, 500, 20_000}) {
      step(ms);
      // Ten ids can use up what a millisecond has left. Ids of the next one then show it until a timer ends it, and that
      // timer runs in real time.
      while (timeOf(ids.nextId()) - FROM < millis(stepped.get())) {
        Thread.sleep(1);
      }
      for (int i = 0; i < 10; i++) {
        long id = ids.nextId();
        assertTrue(id > before, id + " after " + before);
        assertEquals(17, id >> 12 & 1023);
        long late = timeOf(id) - FROM - millis(stepped.get());
        assertTrue(late >= 0 && late < 5_000, "off by " + late + " ms");
        before = id;
      }
    }
  }

  @Test
  void aBurstRunsAheadUpToTheEndOfTheLeaseAndGoesOnWhenItIsRenewed() throws Exception {
    Pool pool = new Pool(5);
    ScriptedNode node = node(pool);
    WorkerSnowflakes ids = client(node).leaseWorker("shops", 5, "burst").generator(FROM - 1, 10, 1);
    long renewals = 0;
    long before = 0;
    for (int i = 0; i < 15_000; i++) {
      long id = ids.nextId();
      assertTrue(id > before);
      before = id;
      renewals = Math.max(renewals, (id >> 11) - 1);
    }
    assertTrue(renewals >= 5_000, "within one lease");
    assertTrue(node.requests().size() >= 2, "no renewal came");
    assertTrue(pool.granted() > FROM - 1 + renewals, "beyond what was granted");
  }

  @Test
  void closeEndsTheGeneratorAndGivesBackWhatItDidNotStamp() throws Exception {
    ScriptedNode node = node(new Pool(60));
    WorkerLease lease = client(node).leaseWorker("shops");
    WorkerSnowflakes ids = lease.generator();
    step(1_000);
    long time = timeOf(ids.nextId());
    lease.close();

    MintleafException failure = assertThrows(MintleafException.class, ids::nextId);
    assertEquals("closed", failure.code());
    assertEquals("the worker lease is closed", failure.getMessage(), "its client may go on");
    assertEquals("DELETE /v1/pools/shops/leases/17-a1 {\"last_ms\":\"" + time + "\"}", lastOf(node));
  }

  @Test
  void closingTheClientClosesItsLeases() throws Exception {
    ScriptedNode node = node(new Pool(60));
    MintleafClient client = client(node);
    WorkerLease lease = client.leaseWorker("shops");
    WorkerLease another = client.leaseWorker("shops");
    client.close();

    assertFalse(lease.mayStamp(FROM));
    assertFalse(another.mayStamp(FROM));
    assertEquals(2, node.requests().stream().filter(each -> each.startsWith("DELETE")).count());
    assertEquals("closed", assertThrows(MintleafException.class, () -> client.leaseWorker("shops")).code());
  }

  @Test
  void closeDoesNotWaitForANodeThatIsAway() throws Exception {
    ScriptedNode node = node(new Pool(60));
    MintleafClient client = client(builder().attemptTimeout(Duration.ofMillis(300)), node);
    WorkerLease lease = client.leaseWorker("shops");
    CountDownLatch never = new CountDownLatch(1);
    node.script(request -> Reply.ok("{}").after(never));
    long begun = System.nanoTime();
    lease.close();
    assertTrue(System.nanoTime() - begun < SECONDS.toNanos(2));
    never.countDown();
  }

  @Test
  void theGeneratorOfALostLeaseGoesOnWithAnother() throws Exception {
    Pool pool = new Pool(5);
    ScriptedNode node = node(pool);
    WorkerLease lease = client(node).leaseWorker("shops", 5, "first");
    WorkerSnowflakes ids = lease.generator();
    long before = ids.nextId();
    assertEquals(17, before >> 12 & 1023);
    pool.renews = false;
    eventually(lease::isLost);

    assertFalse(lease.mayStamp(FROM + 4_999), "the generator's");
    eventually(() -> ids.workerId() == 18);
    step(2);
    long after = ids.nextId();
    assertTrue(after > before);
    assertEquals(18, after >> 12 & 1023);
    assertTrue(timeOf(after) >= FROM + 10_000, "of the second lease");
    lease.close();
    assertEquals(Collections.singletonList("DELETE /v1/pools/shops/leases/18-a2 {\"last_ms\":\"" + timeOf(after) + "\"}"),
        node.requests().stream().filter(each -> each.startsWith("DELETE")).collect(Collectors.toList()));
  }

  @Test
  void aRenewalGoesToTheNextNode() throws Exception {
    Pool pool = new Pool(5);
    ScriptedNode a = node(pool);
    ScriptedNode b = node(pool);
    WorkerLease lease = client(a, b).leaseWorker("shops", 5, "moved");
    ScriptedNode granted = a.requests().isEmpty() ? b : a;
    granted.die();
    eventually(() -> lease.untilMs() > FROM + 5_000);
    assertFalse(lease.isLost());
  }

  @Test
  void aRefusalOfARenewalThatMayEndDoesNotLoseTheLease() throws Exception {
    Pool pool = new Pool(5);
    ScriptedNode node = node(pool);
    WorkerLease lease = client(node).leaseWorker("shops", 5, "token");
    node.script(request -> Reply.problem(401, "unauthorized"));
    eventually(() -> node.requests().size() == 2);
    node.script(pool);
    eventually(() -> lease.untilMs() > FROM + 5_000);
    assertFalse(lease.isLost());
  }

  @Test
  void threadsShareAGenerator() throws Exception {
    ScriptedNode node = node(new Pool(3_600));
    WorkerLease lease = client(node).leaseWorker("shops", 3_600, "many");
    WorkerSnowflakes ids = lease.generator();
    Set<Long> all = ConcurrentHashMap.newKeySet();
    ExecutorService threads = Executors.newFixedThreadPool(8);
    List<Future<?>> running = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      running.add(threads.submit(() -> {
        long before = 0;
        while (true) {
          long id;
          try {
            id = ids.nextId();
          } catch (MintleafException e) {
            assertEquals("closed", e.code());
            return;
          }
          assertTrue(id > before && all.add(id), "twice, or not above: " + id);
          before = id;
        }
      }));
    }
    eventually(() -> all.size() > 500_000);
    lease.close();
    for (Future<?> each : running) {
      each.get();
    }
    threads.shutdown();
    long last = Long.parseLong(lastOf(node).replaceAll(".*\"([0-9]+)\".*", "$1"));
    assertEquals(last, timeOf(Collections.max(all)), "a millisecond that was given back, or one that was not");
  }

  @Test
  void theGeneratorIsAboveWhatWasStampedBefore() throws Exception {
    WorkerLease lease = client(node(new Pool(60))).leaseWorker("shops");
    assertTrue(lease.mayStamp(FROM + 30_000));
    assertTrue(timeOf(lease.generator().nextId()) > FROM + 30_000);
  }

  @Test
  void whatIsStampedWhileAGeneratorIsMadeIsNotTheGenerators() throws Exception {
    WorkerLease lease = client(node(new Pool(3_600))).leaseWorker("shops", 3_600, "both");
    ExecutorService threads = Executors.newFixedThreadPool(4);
    CountDownLatch begun = new CountDownLatch(4);
    List<Future<Long>> stamping = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      stamping.add(threads.submit(() -> {
        long stamped = 0;
        // The generator has milliseconds left, however late it is made.
        for (long ms = FROM; lease.mayStamp(ms); ms = Math.min(ms + 1, FROM + 3_000_000)) {
          stamped = ms;
          if (ms == FROM) {
            begun.countDown();
          }
        }
        return stamped;
      }));
    }
    begun.await();
    long made = timeOf(lease.generator().nextId());
    for (Future<Long> each : stamping) {
      long stamped = each.get();
      assertTrue(made > stamped, made - FROM + " is the generator's, and " + (stamped - FROM) + " was stamped beside it");
    }
    threads.shutdown();
    assertFalse(lease.mayStamp(made + 1));
  }

  @Test
  void lowSequencesSpreadOverShards() throws Exception {
    WorkerSnowflakes ids = client(node(new Pool(60))).leaseWorker("shops").generator();
    int[] shards = new int[7];
    for (int i = 0; i < 700; i++) {
      step(2);
      shards[(int) (ids.nextId() % 7)]++;
    }
    for (int shard : shards) {
      assertTrue(shard > 40, "uneven: " + Arrays.toString(shards));
    }
  }

  @Test
  void afterABurstIdsShowTheTimeAgain() throws Exception {
    WorkerSnowflakes ids = client(node(new Pool(60))).leaseWorker("shops").generator();
    long begun = System.nanoTime();
    long last = 0;
    for (int i = 0; i < 300_000; i++) {
      last = ids.nextId();
    }
    long burstUntil = timeOf(last);
    assertTrue(burstUntil - FROM >= 70, "no burst");
    Thread.sleep(burstUntil - FROM + 500);

    long passed = millis(System.nanoTime() - begun);
    long late = FROM + passed - timeOf(ids.nextId());
    assertTrue(late < 300, "an id shows the time of " + late + " ms ago");
  }

  @Test
  void aLayoutMustHoldTheWorkerIdAndIsOneForALease() throws Exception {
    WorkerLease lease = client(node(new Pool(60))).leaseWorker("shops");
    String small = assertThrows(IllegalArgumentException.class, () -> lease.generator(0, 4, 12)).getMessage();
    assertTrue(small.contains("17"), small);
    for (int[] bits : new int[][] {{0, 12}, {10, 0}, {12, 11}}) {
      assertThrows(IllegalArgumentException.class, () -> lease.generator(0, bits[0], bits[1]));
    }
    assertThrows(IllegalArgumentException.class, () -> lease.generator(FROM, 10, 12));
    WorkerSnowflakes ids = lease.generator(FROM - 5, 6, 16);
    long id = ids.nextId();
    assertEquals(17, id >> 16 & 63);
    assertTrue(id >> 22 >= 5 && id >> 22 < 5_000);
    assertSame(ids, lease.generator(FROM - 5, 6, 16));
    assertThrows(IllegalStateException.class, lease::generator);
  }

  @Test
  void boundsAreCheckedWithoutARequest() throws Exception {
    ScriptedNode node = node(new Pool(60));
    MintleafClient client = client(node);
    assertThrows(IllegalArgumentException.class, () -> client.leaseWorker(""));
    assertThrows(IllegalArgumentException.class, () -> client.leaseWorker("shops", 4, ""));
    assertThrows(IllegalArgumentException.class, () -> client.leaseWorker("shops", 3_601, ""));
    assertThrows(IllegalArgumentException.class, () -> client.register("invoices", ""));
    assertThrows(IllegalArgumentException.class, () -> client.register("", "key"));
    assertEquals(Collections.emptyList(), node.requests());
  }

  @Test
  void anExhaustedOrUnknownPoolIsRefused() throws Exception {
    ScriptedNode node = node(request -> Reply.problem(422, "exhausted"));
    MintleafException failure = assertThrows(MintleafException.class, () -> client(node).leaseWorker("shops"));
    assertEquals("exhausted", failure.code());
    node.script(request -> Reply.problem(404, "not_found"));
    failure = assertThrows(MintleafException.class, () -> client(node).leaseWorker("shops"));
    assertEquals("not_found", failure.code());
    assertEquals(2, node.requests().size());
  }

  @Test
  void aLeaseThatIsNoneIsAskedForElsewhere() throws Exception {
    List<String> malformed = Arrays.asList(
        "{}", lease("17.5", "a", FROM, FROM + 1), lease("65536", "a", FROM, FROM + 1), lease("-1", "a", FROM, FROM + 1),
        lease("17", "", FROM, FROM + 1), lease("17", "a", FROM, FROM), lease("\"17\"", "a", FROM, FROM + 1));
    for (String answer : malformed) {
      ScriptedNode bad = node(request -> Reply.status(201, answer));
      assertEquals(17, client(bad, node(new Pool(60))).leaseWorker("shops").workerId());
    }
  }

  @Test
  void aRegisterIsAskedAgainWithTheSameKeyWhenAnAnswerIsLost() throws Exception {
    String answer = "{\"tag\":\"inv/oices\",\"key\":\"order 7\",\"id\":\"17\",\"text\":\"INV-2026-000017\","
        + "\"new\":%s,\"period\":\"2026\"}";
    ScriptedNode loses = node(request -> Reply.status(201, String.format(answer, "true")).cutBehind("INV"));
    ScriptedNode node = node(request -> Reply.status(200, String.format(answer, "false")));

    Registration invoice = client(loses, node).register("inv/oices", "order 7");

    assertEquals(17, invoice.id());
    assertEquals("INV-2026-000017", invoice.text());
    assertEquals("2026", invoice.period());
    assertFalse(invoice.isNew());
    String request = "POST /v1/register/inv%2Foices/order%207";
    assertTrue(loses.requests().stream().allMatch(request::equals));
    assertEquals(Collections.singletonList(request), node.requests());
    assertTrue(node.heads().get(0).contains("Content-Length: 0\n"), node.heads().get(0));
  }

  @Test
  void aRegisterWithoutFormatAndPeriodsHasNeither() throws Exception {
    ScriptedNode node = node(request -> Reply.status(201, "{\"tag\":\"t\",\"key\":\"k\",\"id\":\"3\",\"new\":true}"));
    Registration third = client(node).register("t", "k");
    assertEquals("3", third.text());
    assertEquals(null, third.period());
    assertTrue(third.isNew());
  }

  /** A pool whose leases begin with worker id 17, and ten seconds apart. */
  private static final class Pool implements ScriptedNode.Script {
    private final int seconds;
    private int leased;
    private int renewed;
    private volatile boolean renews = true;

    Pool(int seconds) {
      this.seconds = seconds;
    }

    synchronized long granted() {
      return FROM + (leased - 1) * 10_000L + (1 + renewed) * seconds * 1_000L;
    }

    @Override
    public synchronized Reply reply(String request) {
      if (request.startsWith("DELETE ")) {
        return Reply.status(204, "");
      }
      if (request.startsWith(LEASES)) {
        leased++;
        renewed = 0;
      } else if (!renews) {
        return Reply.problem(409, "conflict");
      } else {
        renewed++;
      }
      String answer = lease("" + (16 + leased), (16 + leased) + "-a" + leased, FROM + (leased - 1) * 10_000L, granted());
      return Reply.status(request.startsWith(LEASES) ? 201 : 200, answer);
    }
  }

  private static String lease(String workerId, String name, long from, long until) {
    return "{\"pool\":\"shops\",\"worker_id\":" + workerId + ",\"lease\":\"" + name + "\",\"from_ms\":\"" + from
        + "\",\"until_ms\":\"" + until + "\"}";
  }

  private static long timeOf(long id) {
    return (id >> 22) + WorkerSnowflakes.EPOCH_MS;
  }

  private static long millis(long nanos) {
    return java.util.concurrent.TimeUnit.NANOSECONDS.toMillis(nanos);
  }

  private void step(long ms) {
    stepped.addAndGet(MILLISECONDS.toNanos(ms));
  }

  private ScriptedNode node(ScriptedNode.Script script) throws Exception {
    ScriptedNode node = new ScriptedNode(script);
    opened.add(node);
    return node;
  }

  private static MintleafClientBuilder builder() {
    return MintleafClient.builder().callTimeout(Duration.ofSeconds(8));
  }

  private MintleafClient client(ScriptedNode... nodes) {
    return client(builder(), nodes);
  }

  private MintleafClient client(MintleafClientBuilder builder, ScriptedNode... nodes) {
    List<String> urls = Arrays.stream(nodes).map(ScriptedNode::url).collect(Collectors.toList());
    MintleafClient client = builder.endpoints(urls).build(() -> System.nanoTime() + stepped.get());
    opened.add(client);
    return client;
  }

  private static String lastOf(ScriptedNode node) {
    return node.requests().get(node.requests().size() - 1);
  }

  private static void eventually(Callable<Boolean> holds) throws Exception {
    long end = System.nanoTime() + SECONDS.toNanos(20);
    while (!holds.call()) {
      assertTrue(System.nanoTime() < end, "not within 20 s");
      Thread.sleep(5);
    }
  }
}
