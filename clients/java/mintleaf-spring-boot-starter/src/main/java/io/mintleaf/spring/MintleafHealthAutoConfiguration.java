package io.mintleaf.spring;

import io.mintleaf.client.MintleafClient;
import java.util.Map;
import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** Shows the cluster in {@code /actuator/health}, where the actuator is. */
@AutoConfiguration(after = MintleafAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
@ConditionalOnBean(MintleafClient.class)
@ConditionalOnEnabledHealthIndicator("mintleaf")
public class MintleafHealthAutoConfiguration {
  /**
   * Makes the indicator: up when a node says that it is ready, or while the program goes on without one because the
   * client holds ids of each tag that it leases. Then its details say what is wrong.
   *
   * @param client the client whose nodes are asked
   * @return the indicator
   */
  @Bean
  @ConditionalOnMissingBean(name = "mintleafHealthIndicator")
  public HealthIndicator mintleafHealthIndicator(MintleafClient client) {
    return () -> {
      Map<String, String> nodes = client.readiness();
      if (nodes.containsValue(MintleafClient.READY)) {
        return Health.up().build();
      }
      boolean holding = client.isHolding();
      Health.Builder health = holding ? Health.up() : Health.down();
      return health
          .withDetail("reason", "no node says that it is ready")
          .withDetail("ids", holding ? "handed out from what is held" : "none, or not of every tag, is held")
          .withDetail("nodes", nodes)
          .build();
    };
  }
}
