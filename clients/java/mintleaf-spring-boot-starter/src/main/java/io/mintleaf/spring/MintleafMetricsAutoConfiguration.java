package io.mintleaf.spring;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.mintleaf.client.ClientStats;
import io.mintleaf.client.MintleafClient;
import java.util.function.ToDoubleFunction;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** Counts what the client does as {@code mintleaf.client.*}, where Micrometer is. */
@AutoConfiguration(after = MintleafAutoConfiguration.class)
@ConditionalOnClass(MeterBinder.class)
@ConditionalOnBean(MintleafClient.class)
public class MintleafMetricsAutoConfiguration {
  /**
   * Makes the meters.
   *
   * @param client the client to count
   * @return the meters, which Boot binds to each registry
   */
  @Bean
  @ConditionalOnMissingBean(name = "mintleafMeters")
  public MeterBinder mintleafMeters(MintleafClient client) {
    return registry -> {
      count(registry, client, "requests", "Requests for ids", ClientStats::requests);
      count(registry, client, "requests.failed", "Requests that failed, so that another node was asked",
          ClientStats::failedRequests);
      count(registry, client, "leases", "Leases that came", ClientStats::leases);
      count(registry, client, "leased.ids", "Ids in those leases", ClientStats::leasedIds);
      count(registry, client, "waits", "Calls that waited for an answer", ClientStats::waits);
    };
  }

  private static void count(MeterRegistry registry, MintleafClient client, String name, String description,
      ToDoubleFunction<ClientStats> value) {
    FunctionCounter.builder("mintleaf.client." + name, client, each -> value.applyAsDouble(each.stats()))
        .description(description)
        .register(registry);
  }
}
