package com.sankuai.inf.leaf.plugin;

import com.sankuai.inf.leaf.exception.InitException;
import com.sankuai.inf.leaf.service.SegmentService;
import com.sankuai.inf.leaf.service.SnowflakeService;
import io.mintleaf.client.MintleafClient;
import org.springframework.beans.factory.ObjectProvider;
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
  @Bean
  @Lazy // so that a program that switches both services off needs no endpoints
  LeafClient leafClient(LeafSpringBootProperties properties, ObjectProvider<MintleafClient> programs)
      throws InitException {
    return new LeafClient(properties, programs);
  }

  @Bean
  @ConditionalOnProperty(name = "leaf.segment.enable", havingValue = "true")
  SegmentService initLeafSegmentStarter(LeafClient client) {
    return new SegmentService(client.get());
  }

  @Bean
  @ConditionalOnProperty(name = "leaf.snowflake.enable", havingValue = "true")
  SnowflakeService initLeafSnowflakeStarter(LeafClient client) {
    return new SnowflakeService(client.get());
  }
}
