package io.mintleaf.client;

import java.io.Closeable;
import java.io.IOException;

/** Sends one request and returns its whole answer. */
interface Transport extends Closeable {
  /**
   * Sends a request to the endpoint.
   *
   * @param deadline when to give up, on the client's ticker
   * @throws IOException if no whole answer came until then
   */
  Answer send(Endpoint endpoint, Request request, long deadline) throws IOException;

  /** Ends all requests and connections at once. */
  @Override
  void close();
}
