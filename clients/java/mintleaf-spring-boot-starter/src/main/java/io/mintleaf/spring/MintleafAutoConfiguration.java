package io.mintleaf.spring;

import io.mintleaf.client.MintleafClient;
import io.mintleaf.client.MintleafClientBuilder;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;

/** Makes a {@link MintleafClient} from {@code mintleaf.*}, where there are endpoints and the program has none of its own. */
@AutoConfiguration
@EnableConfigurationProperties(MintleafProperties.class)
public class MintleafAutoConfiguration {
  /**
   * Makes the client, which is closed with the context.
   *
   * @param properties the settings
   * @return the client
   */
  @Bean(destroyMethod = "close")
  @ConditionalOnMissingBean
  @Conditional(OnEndpoints.class)
  public MintleafClient mintleafClient(MintleafProperties properties) {
    MintleafClientBuilder builder = MintleafClient.builder()
        .endpoints(properties.getEndpoints())
        .token(properties.getToken())
        .zone(properties.getZone());
    if (properties.getTrustStore() != null) {
      Path file = Paths.get(properties.getTrustStore());
      String password = properties.getTrustStorePassword();
      builder = password == null ? builder.trustStore(file) : builder.trustStore(file, password.toCharArray());
    }
    if (properties.getLeaseMax() != null) {
      builder = builder.leaseMax(properties.getLeaseMax());
    }
    if (properties.getCallTimeout() != null) {
      builder = builder.callTimeout(properties.getCallTimeout());
    }
    if (properties.getAttemptTimeout() != null) {
      builder = builder.attemptTimeout(properties.getAttemptTimeout());
    }
    if (properties.getConnectTimeout() != null) {
      builder = builder.connectTimeout(properties.getConnectTimeout());
    }
    return builder.build();
  }
}
