package com.sankuai.inf.leaf.plugin;

import com.sankuai.inf.leaf.common.PropertyFactory;
import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;

/**
 * The properties {@code leaf.*}. Those of Leaf's database and ZooKeeper may stay where they are; nothing
 * reads them.
 */
@ConfigurationProperties(prefix = "leaf", ignoreUnknownFields = true)
public class LeafSpringBootProperties {
  private String name;
  private List<String> endpoints = new ArrayList<>();
  private String token;
  private String zone;

  /**
   * Returns Leaf's name of the service.
   *
   * @return any text, or null
   */
  public String getName() {
    return name;
  }

  /**
   * Sets Leaf's name of the service, which Mintleaf does not need.
   *
   * @param name any text
   */
  public void setName(String name) {
    this.name = name;
    PropertyFactory.setLeafName(name);
  }

  /**
   * Returns the nodes.
   *
   * @return base addresses
   */
  public List<String> getEndpoints() {
    return endpoints;
  }

  /**
   * Sets the nodes.
   *
   * @param endpoints base addresses, {@code http://HOST:PORT} or {@code https://HOST:PORT}
   */
  public void setEndpoints(List<String> endpoints) {
    this.endpoints = endpoints;
  }

  /**
   * Returns the token.
   *
   * @return the token, or null
   */
  public String getToken() {
    return token;
  }

  /**
   * Sets the token that the client proves itself by.
   *
   * @param token the token
   */
  public void setToken(String token) {
    this.token = token;
  }

  /**
   * Returns the zone.
   *
   * @return the zone whose nodes are asked first, or null
   */
  public String getZone() {
    return zone;
  }

  /**
   * Sets the zone whose nodes are asked first.
   *
   * @param zone the name
   */
  public void setZone(String zone) {
    this.zone = zone;
  }
}
