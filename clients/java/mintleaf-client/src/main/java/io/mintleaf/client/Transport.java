package io.mintleaf.client;

import java.io.Closeable;
import java.io.IOException;

/** Sends one request and returns its whole answer. */
interface Transport extends Closeable {
  /**
   * Sends {@code GET path} to the endpoint.
   *
   * @param deadline when to give up, on the client's ticker
   * @throws IOException if no whole answer came until then
   */
  Answer get(Endpoint endpoint, String path, long deadline) throws IOException;

  /** Ends all requests and connections at once. */
  @Override
  void close();
}
