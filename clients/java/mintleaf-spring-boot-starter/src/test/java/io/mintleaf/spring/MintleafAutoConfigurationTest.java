package io.mintleaf.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.mintleaf.client.CountingScript;
import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.ScriptedNode;
import io.mintleaf.client.ScriptedNode.Reply;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

class MintleafAutoConfigurationTest {
  private final CountingScript ids = new CountingScript();
  private ScriptedNode node;
  private final ApplicationContextRunner runner = new ApplicationContextRunner()
      .withConfiguration(AutoConfigurations.of(MintleafAutoConfiguration.class,
          MintleafHealthAutoConfiguration.class, MintleafMetricsAutoConfiguration.class));

  @BeforeEach
  void startNode() throws Exception {
    node = new ScriptedNode(path -> path.equals("/readyz") ? Reply.ok("{\"ready\":true}") : ids.reply(path));
  }

  @AfterEach
  void stopNode() throws Exception {
    node.close();
  }

  @Test
  void clientIsMadeOfTheProperties() {
    runner.withPropertyValues("mintleaf.endpoints=" + node.url(), "mintleaf.token=s3cret",
        "mintleaf.lease-max=5", "mintleaf.call-timeout=3s").run(context -> {
          MintleafClient client = context.getBean(MintleafClient.class);
          assertThat(client.nextId("orders")).isEqualTo(1);
          assertThat(client.nextId("orders")).isEqualTo(2);
          assertThat(node.heads().get(0)).contains("Authorization: Bearer s3cret\n");
          assertThat(node.requests()).contains("/v1/segment/orders?count=5&format=ranges");
        });
  }

  @Test
  void endpointsMayBeAList() {
    runner.withPropertyValues("mintleaf.endpoints[0]=" + node.url())
        .run(context -> assertThat(context).hasSingleBean(MintleafClient.class));
  }

  @Test
  void withoutEndpointsThereIsNoClient() {
    runner.run(context -> assertThat(context)
        .doesNotHaveBean(MintleafClient.class).doesNotHaveBean(HealthIndicator.class).doesNotHaveBean(MeterBinder.class));
  }

  @Test
  void aClientOfTheProgramItselfIsKept() {
    MintleafClient own = MintleafClient.builder().endpoints(node.url()).build();
    runner.withPropertyValues("mintleaf.endpoints=http://127.0.0.1:1").withBean(MintleafClient.class, () -> own)
        .run(context -> assertThat(context.getBean(MintleafClient.class)).isSameAs(own));
  }

  @Test
  void healthIsUpWhileANodeIsReadyOrIdsOfEachTagAreHeld() {
    runner.withPropertyValues("mintleaf.endpoints=" + node.url(), "mintleaf.lease-max=10",
        "mintleaf.call-timeout=3s").run(context -> {
          HealthIndicator indicator = context.getBean(HealthIndicator.class);
          MintleafClient client = context.getBean(MintleafClient.class);
          assertThat(indicator.health().getStatus()).isEqualTo(Status.UP);
          assertThat(indicator.health().getDetails()).isEmpty();
          client.nextId("orders");
          client.nextId("orders");

          node.script(path -> Reply.status(503, "{\"ready\":false}"));
          assertThat(indicator.health().getStatus()).isEqualTo(Status.UP);
          assertThat(indicator.health().getDetails().toString())
              .contains("no node says that it is ready", "from what is held", node.url() + "=HTTP 503");

          assertThatThrownBy(() -> client.nextIds("orders", 10_000)).hasMessageContaining("503");
          assertThat(indicator.health().getStatus()).isEqualTo(Status.DOWN);
          assertThat(indicator.health().getDetails().toString()).contains(node.url() + "=HTTP 503");
        });
  }

  @Test
  void healthIsDownWithoutANodeAndWithoutALease() {
    runner.withPropertyValues("mintleaf.endpoints=" + node.url()).run(context -> {
      node.script(path -> Reply.status(503, "{\"ready\":false}"));
      assertThat(context.getBean(HealthIndicator.class).health().getStatus()).isEqualTo(Status.DOWN);
    });
  }

  @Test
  void metersCountWhatTheClientDoes() {
    runner.withPropertyValues("mintleaf.endpoints=" + node.url()).run(context -> {
      MeterRegistry registry = new SimpleMeterRegistry();
      context.getBean(MeterBinder.class).bindTo(registry);
      MintleafClient client = context.getBean(MintleafClient.class);
      client.nextId("orders");
      client.nextId("orders");
      assertThat(registry.get("mintleaf.client.requests").functionCounter().count()).isEqualTo(2);
      assertThat(registry.get("mintleaf.client.leased.ids").functionCounter().count()).isEqualTo(101);
    });
  }
}
