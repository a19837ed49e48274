package com.sankuai.inf.leaf.plugin;

import com.sankuai.inf.leaf.exception.InitException;
import io.mintleaf.client.MintleafClient;
import org.springframework.beans.factory.ObjectProvider;

/**
 * The client behind Leaf's services: one for {@code leaf.endpoints}, else the program's own bean.
 *
 * <p>It is no {@link MintleafClient} bean, so that it takes the place of none.
 */
class LeafClient implements AutoCloseable {
  private final MintleafClient client;
  private final boolean ownsClient;

  LeafClient(LeafSpringBootProperties properties, ObjectProvider<MintleafClient> programs) throws InitException {
    this.ownsClient = !properties.getEndpoints().isEmpty();
    this.client = ownsClient ? build(properties) : programs.getIfUnique();
    if (client == null) {
      throw new InitException(
          "leaf.endpoints is not set: name the nodes, for instance http://a:8080,http://b:8080,http://c:8080");
    }
  }

  MintleafClient get() {
    return client;
  }

  private static MintleafClient build(LeafSpringBootProperties properties) {
    return MintleafClient.builder()
        .endpoints(properties.getEndpoints())
        .token(properties.getToken())
        .zone(properties.getZone())
        .build();
  }

  @Override
  public void close() {
    if (ownsClient) {
      client.close();
    }
  }
}
