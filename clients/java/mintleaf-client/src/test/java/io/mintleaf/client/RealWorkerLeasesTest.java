package io.mintleaf.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Worker ids that real nodes lease, also while nodes are killed. */
@Timeout(180)
class RealWorkerLeasesTest {
  private static RealNodes nodes;

  @BeforeAll
  static void startNodes() throws Exception {
    nodes = RealNodes.three();
  }

  @AfterAll
  static void endNodes() throws Exception {
    if (nodes != null) {
      nodes.close();
    }
  }

  private static MintleafClient client() {
    return MintleafClient.builder().endpoints(nodes.urls()).build();
  }

  @Test
  void processesMakeIdsWhileEveryNodeIsKilledInTurn() throws Exception {
    nodes.send("PUT", "/v1/pools/killed", "{\"workers\":\"0-63\"}");
    Set<Long> all = ConcurrentHashMap.newKeySet();
    AtomicBoolean over = new AtomicBoolean();
    ExecutorService threads = Executors.newCachedThreadPool();
    List<Future<?>> running = new ArrayList<>();
    try (MintleafClient a = client(); MintleafClient b = client()) {
      WorkerLease first = a.leaseWorker("killed", 5, "a");
      WorkerLease second = b.leaseWorker("killed", 5, "b");
      for (WorkerLease lease : new WorkerLease[] {first, second, first, second}) {
        WorkerSnowflakes ids = lease.generator();
        running.add(threads.submit(() -> {
          while (!over.get()) {
            long id = ids.nextId();
            assertTrue(all.add(id), "twice: " + id);
            Thread.sleep(1);
          }
          return null;
        }));
      }
      long granted = first.untilMs();
      for (int node = 0; node < nodes.count(); node++) {
        nodes.kill(node);
        Thread.sleep(1_500);
        nodes.start(node);
        nodes.awaitReady(node);
      }
      long end = System.nanoTime() + 20_000_000_000L;
      while (first.untilMs() == granted || second.untilMs() == granted) {
        assertTrue(System.nanoTime() < end, "no renewal within 20 s");
        Thread.sleep(10);
      }
      over.set(true);
      for (Future<?> each : running) {
        each.get();
      }
      assertTrue(all.size() > 1_000);
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  void noWorkerIdHasTwoHoldersUntilItIsGivenBack() throws Exception {
    nodes.send("PUT", "/v1/pools/small", "{\"workers\":\"5-7\"}");
    try (MintleafClient client = client()) {
      Set<Integer> held = new HashSet<>();
      List<WorkerLease> leases = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        WorkerLease lease = client.leaseWorker("small");
        leases.add(lease);
        assertTrue(held.add(lease.workerId()));
      }
      MintleafException failure = assertThrows(MintleafException.class, () -> client.leaseWorker("small"));
      assertEquals("exhausted", failure.code());
      assertEquals(422, failure.status());

      WorkerLease given = leases.get(1);
      assertTrue(given.mayStamp(given.fromMs() + 10));
      given.close();
      Thread.sleep(100); // the millisecond that was stamped is over
      WorkerLease again = client.leaseWorker("small");
      assertEquals(given.workerId(), again.workerId());
      assertTrue(again.fromMs() > given.fromMs() + 10, "a millisecond that was stamped");
      assertFalse(given.mayStamp(given.fromMs() + 10));
    }
  }

  @Test
  void theGeneratorOfALeaseThatIsOverGoesOnWithAnother() throws Exception {
    nodes.send("PUT", "/v1/pools/over", "{\"workers\":\"0-3\"}");
    try (MintleafClient client = client()) {
      WorkerLease lease = client.leaseWorker("over", 5, "lost");
      WorkerSnowflakes ids = lease.generator();
      long before = ids.nextId();
      nodes.send("DELETE", "/v1/pools/over/leases/" + lease.name(), "{\"last_ms\":\"" + lease.untilMs() + "\"}");

      long end = System.nanoTime() + 20_000_000_000L;
      while (!lease.isLost()) {
        assertTrue(System.nanoTime() < end, "not lost within 20 s");
        Thread.sleep(10);
      }
      while (ids.workerId() == lease.workerId()) {
        assertTrue(System.nanoTime() < end, "no other lease within 20 s");
        Thread.sleep(10);
      }
      assertTrue(ids.nextId() > before);
    }
    MintleafException failure = assertThrows(MintleafException.class, () -> {
      try (MintleafClient client = client()) {
        client.leaseWorker("no-such-pool");
      }
    });
    assertEquals(404, failure.status());
  }
}
