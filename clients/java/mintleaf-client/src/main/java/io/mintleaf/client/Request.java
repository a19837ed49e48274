package io.mintleaf.client;

/** What is asked of a node. Immutable. */
final class Request {
  final String method;
  final String path;
  /** The body, a JSON object; or null. */
  final String json;

  private Request(String method, String path, String json) {
    this.method = method;
    this.path = path;
    this.json = json;
  }

  static Request get(String path) {
    return new Request("GET", path, null);
  }

  static Request post(String path, String json) {
    return new Request("POST", path, json);
  }

  static Request delete(String path, String json) {
    return new Request("DELETE", path, json);
  }

  /** Returns whether a node that does what is asked answers with this status. */
  boolean isDoneBy(int status) {
    return status == 200 || status == 201 && method.equals("POST") || status == 204 && method.equals("DELETE");
  }
}
