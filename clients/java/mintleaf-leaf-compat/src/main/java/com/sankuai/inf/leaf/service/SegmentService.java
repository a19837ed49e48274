package com.sankuai.inf.leaf.service;

import com.sankuai.inf.leaf.common.Result;
import com.sankuai.inf.leaf.exception.InitException;
import io.mintleaf.client.MintleafClient;

/** Hands out ids of tags, as Leaf's service of this name does. */
public class SegmentService implements AutoCloseable {
  private final MintleafClient client;
  private final boolean ownsClient;

  /**
   * Makes a service over a client, which the caller closes.
   *
   * @param client where ids come from
   */
  public SegmentService(MintleafClient client) {
    this.client = client;
    this.ownsClient = false;
  }

  /**
   * Makes a service from {@code leaf.endpoints}, a system property or a line of {@code leaf.properties} on
   * the class path. The arguments are those of Leaf's database and are not looked at.
   *
   * @param url not looked at
   * @param username not looked at
   * @param password not looked at
   * @throws InitException if {@code leaf.endpoints} is missing or malformed
   */
  public SegmentService(String url, String username, String password) throws InitException {
    this.client = LeafClients.ofSettings();
    this.ownsClient = true;
  }

  /**
   * Returns the next id of a tag.
   *
   * @param key the tag
   * @return the id; or -1 after close, -2 for a tag that does not exist, -3 when there is none in time
   */
  public Result getId(String key) {
    return LeafResults.of(() -> client.nextId(key));
  }

  /** Closes the client, unless the caller gave it. */
  @Override
  public void close() {
    if (ownsClient) {
      client.close();
    }
  }
}
