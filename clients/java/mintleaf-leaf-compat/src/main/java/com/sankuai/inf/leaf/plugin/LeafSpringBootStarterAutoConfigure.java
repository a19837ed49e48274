package com.sankuai.inf.leaf.plugin;

import com.sankuai.inf.leaf.exception.InitException;
import com.sankuai.inf.leaf.service.SegmentService;
import com.sankuai.inf.leaf.service.SnowflakeService;
import io.mintleaf.client.MintleafClient;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.context.annotation.PropertySource;

/** Makes Leaf's services over one client. {@code @EnableLeafServer} imports it. */
@Configuration
@EnableConfigurationProperties(LeafSpringBootProperties.class)
@PropertySource(value = "classpath:leaf.properties", ignoreResourceNotFound = true)
public class LeafSpringBootStarterAutoConfigure {
  /**
   * Makes the client, unless the program has one of its own.
   *
   * @param properties the settings
   * @return the client, which is closed with the context
   * @throws InitException if {@code leaf.endpoints} is missing or malformed
   */
  @Bean(destroyMethod = "close")
  @Lazy // so that a program that switches both services off needs no endpoints
  @ConditionalOnMissingBean
  public MintleafClient leafMintleafClient(LeafSpringBootProperties properties) throws InitException {
    if (properties.getEndpoints().isEmpty()) {
      throw new InitException(
          "leaf.endpoints is not set: name the nodes, for instance http://a:8080,http://b:8080,http://c:8080");
    }
    return MintleafClient.builder()
        .endpoints(properties.getEndpoints())
        .token(properties.getToken())
        .zone(properties.getZone())
        .build();
  }

  /**
   * Makes the service for ids of tags.
   *
   * @param client where ids come from
   * @return the service
   */
  @Bean
  @ConditionalOnProperty(name = "leaf.segment.enable", havingValue = "true")
  public SegmentService initLeafSegmentStarter(MintleafClient client) {
    return new SegmentService(client);
  }

  /**
   * Makes the service for snowflake ids.
   *
   * @param client where ids come from
   * @return the service
   */
  @Bean
  @ConditionalOnProperty(name = "leaf.snowflake.enable", havingValue = "true")
  public SnowflakeService initLeafSnowflakeStarter(MintleafClient client) {
    return new SnowflakeService(client);
  }
}
