package com.sankuai.inf.leaf.service;

import com.sankuai.inf.leaf.common.Result;
import com.sankuai.inf.leaf.exception.InitException;
import io.mintleaf.client.MintleafClient;

/** Hands out snowflake ids, as Leaf's service of this name does. */
public class SnowflakeService implements AutoCloseable {
  private final MintleafClient client;
  private final boolean ownsClient;

  /**
   * Makes a service over a client, which the caller closes.
   *
   * @param client where ids come from
   */
  public SnowflakeService(MintleafClient client) {
    this.client = client;
    this.ownsClient = false;
  }

  /**
   * Makes a service from {@code leaf.endpoints}, a system property or a line of {@code leaf.properties} on
   * the class path. The arguments are those of Leaf's ZooKeeper and are not looked at.
   *
   * @param zkAddress not looked at
   * @param port not looked at
   * @throws InitException if {@code leaf.endpoints} is missing or malformed
   */
  public SnowflakeService(String zkAddress, int port) throws InitException {
    this.client = LeafClients.ofSettings();
    this.ownsClient = true;
  }

  /**
   * Returns the next snowflake id.
   *
   * @param key not looked at
   * @return the id; or -1 after close, -3 when there is none in time
   */
  public Result getId(String key) {
    return LeafResults.of(client::nextSnowflake);
  }

  /** Closes the client, unless the caller gave it. */
  @Override
  public void close() {
    if (ownsClient) {
      client.close();
    }
  }
}
