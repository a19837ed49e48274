package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sankuai.inf.leaf.common.Result;
import com.sankuai.inf.leaf.common.Status;
import com.sankuai.inf.leaf.exception.InitException;
import com.sankuai.inf.leaf.service.SegmentService;
import com.sankuai.inf.leaf.service.SnowflakeService;
import io.mintleaf.client.CountingScript;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.RealNodes;
import io.mintleaf.client.ScriptedNode;
import io.mintleaf.client.ScriptedNode.Reply;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;

class LeafDemoApplicationTest {
  @AfterEach
  void forgetTheNode() {
    System.clearProperty("test.node");
    System.clearProperty("leaf.endpoints");
  }

  @Test
  void programForLeafRunsOnMintleaf() throws Exception {
    try (RealNodes nodes = RealNodes.of(1)) {
      System.setProperty("test.node", String.join(",", nodes.urls()));
      try (ConfigurableApplicationContext context = SpringApplication.run(LeafDemoApplication.class)) {
        Orders orders = context.getBean(Orders.class);
        Result first = orders.segmentService.getId("leaf-segment-test");
        assertEquals("Result{id=1, status=SUCCESS}", first.toString());
        long before = first.getId();
        for (int i = 0; i < 5_000; i++) {
          Result next = orders.segmentService.getId("leaf-segment-test");
          assertTrue(next.getId() > before, "ids rise");
          before = next.getId();
        }
        Result snowflake = orders.snowflakeService.getId("any");
        assertEquals(Status.SUCCESS, snowflake.getStatus());
        assertTrue(snowflake.getId() > 0);
      }
    }
  }

  @Test
  void programThatSwitchesBothServicesOffNeedsNoNode() {
    try (ConfigurableApplicationContext context = SpringApplication.run(NoOrders.class,
        "--leaf.segment.enable=false", "--leaf.snowflake.enable=false", "--leaf.endpoints=")) {
      assertEquals(0, context.getBeanNamesForType(SegmentService.class).length);
      assertEquals(0, context.getBeanNamesForType(SnowflakeService.class).length);
    }
  }

  @Test
  void missingEndpointsAreNamed() {
    Exception failure = assertThrows(Exception.class, () -> SpringApplication.run(NoOrders.class, "--leaf.endpoints="));
    Throwable root = failure;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    assertTrue(root.getMessage().contains("leaf.endpoints is not set"), root.getMessage());
    System.setProperty("leaf.endpoints", " ");
    assertThrows(InitException.class, () -> new SegmentService("jdbc:mysql://db.internal:3306/leaf", "leaf", "leaf"));
  }

  @Test
  void servicesAreMadeWithLeafsConstructors() throws Exception {
    try (ScriptedNode node = new ScriptedNode(new CountingScript())) {
      System.setProperty("leaf.endpoints", node.url());
      SegmentService segments = new SegmentService("jdbc:mysql://db.internal:3306/leaf", "leaf", "leaf");
      SnowflakeService snowflakes = new SnowflakeService("zk.internal:2181", 8080);
      assertEquals(1, segments.getId("orders").getId());
      assertEquals(Status.SUCCESS, snowflakes.getId("any").getStatus());
      segments.close();
      snowflakes.close();
      assertEquals("Result{id=-1, status=EXCEPTION}", segments.getId("orders").toString());
    }
  }

  @Test
  void failuresHaveLeafsNumbers() throws Exception {
    try (ScriptedNode node = new ScriptedNode(path -> Reply.problem(404, "unknown_tag"));
        MintleafClient client =
            MintleafClient.builder().endpoints(node.url()).callTimeout(Duration.ofMillis(200)).build()) {
      SegmentService service = new SegmentService(client);
      assertEquals("Result{id=-2, status=EXCEPTION}", service.getId("nobody").toString());
      assertEquals(-2, service.getId("").getId());
      node.script(path -> Reply.problem(423, "frozen"));
      assertEquals(-3, service.getId("frozen").getId());
      node.script(path -> Reply.hangUp());
      assertEquals("Result{id=-3, status=EXCEPTION}", service.getId("orders").toString());
      assertNotNull(service.getId("orders").getStatus());
    }
  }
}
