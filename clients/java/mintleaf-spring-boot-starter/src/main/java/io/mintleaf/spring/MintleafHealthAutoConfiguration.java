package io.mintleaf.spring;

import io.mintleaf.client.MintleafClient;
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
   * Makes the indicator: up when a node says that it is ready. While it is down, ids that are held are
   * handed out still.
   *
   * @param client the client whose nodes are asked
   * @return the indicator
   */
  @Bean
  @ConditionalOnMissingBean(name = "mintleafHealthIndicator")
  public HealthIndicator mintleafHealthIndicator(MintleafClient client) {
    return () -> client.isReady()
        ? Health.up().build()
        : Health.down().withDetail("reason", "no node says that it is ready").build();
  }
}
