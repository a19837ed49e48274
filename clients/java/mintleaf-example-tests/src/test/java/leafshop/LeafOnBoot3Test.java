package leafshop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sankuai.inf.leaf.plugin.annotation.EnableLeafServer;
import com.sankuai.inf.leaf.service.SegmentService;
import com.sankuai.inf.leaf.service.SnowflakeService;
import io.mintleaf.client.CountingScript;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.ScriptedNode;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;

/** Leaf's services on Spring Boot 3, alone and beside the starter. */
class LeafOnBoot3Test {
  @SpringBootConfiguration
  @EnableAutoConfiguration
  @EnableLeafServer
  static class LeafShop {}

  @Test
  void leafsServicesRunOnBoot3() throws Exception {
    try (ScriptedNode node = new ScriptedNode(new CountingScript());
        ConfigurableApplicationContext context = run("--mintleaf.endpoints=", "--leaf.endpoints=" + node.url())) {
      assertEquals("Result{id=1, status=SUCCESS}", context.getBean(SegmentService.class).getId("orders").toString());
      assertTrue(context.getBean(SnowflakeService.class).getId("any").getId() > 0);
      assertEquals(0, context.getBeanNamesForType(MintleafClient.class).length);
    }
  }

  @Test
  void theClientOfTheStarterServesLeafsServices() throws Exception {
    try (ScriptedNode node = new ScriptedNode(new CountingScript());
        ConfigurableApplicationContext context = run("--mintleaf.endpoints=" + node.url(), "--leaf.endpoints=")) {
      assertEquals(1, context.getBean(MintleafClient.class).nextId("orders"));
      assertEquals(2, context.getBean(SegmentService.class).getId("orders").getId());
    }
  }

  private static ConfigurableApplicationContext run(String... arguments) {
    SpringApplication application = new SpringApplication(LeafShop.class);
    String[] all = java.util.Arrays.copyOf(arguments, arguments.length + 3);
    all[arguments.length] = "--server.port=0";
    all[arguments.length + 1] = "--leaf.segment.enable=true";
    all[arguments.length + 2] = "--leaf.snowflake.enable=true";
    return application.run(all);
  }
}
