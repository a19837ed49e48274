package io.mintleaf.client;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** A whole HTTP answer: its status, the header fields that the client knows, and all of its body. */
final class Answer {
  /** The most characters of an answer that a message shows. */
  private static final int SAID_CHARS_MAX = 200;

  final int status;
  /** Seconds of {@code Retry-After}, or -1. */
  final long retryAfterSeconds;
  private final byte[] body;

  Answer(int status, long retryAfterSeconds, byte[] body) {
    this.status = status;
    this.retryAfterSeconds = retryAfterSeconds;
    this.body = body;
  }

  /**
   * Returns the body, which is a JSON object.
   *
   * @throws MalformedAnswer if it is not
   */
  Map<String, Object> json() throws MalformedAnswer {
    String text;
    try {
      text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString();
    } catch (CharacterCodingException e) {
      throw new MalformedAnswer("no UTF-8");
    }
    return object(Json.parse(text));
  }

  /** Returns the problem (RFC 9457) that the answer tells, with an empty code where it has none. */
  MintleafException problem() {
    String code = null;
    String detail = null;
    long countMax = 0;
    try {
      Map<String, Object> problem = json();
      code = string(problem.get("code"));
      detail = string(problem.get("detail"));
      countMax = problem.get("count_max") instanceof Number ? ((Number) problem.get("count_max")).longValue() : 0;
    } catch (MalformedAnswer e) {
      // What answers is no node.
    }
    return new MintleafException(
        code == null ? "" : code,
        status,
        "HTTP " + status + (code == null ? "" : " " + code) + (detail == null ? "" : ": " + detail),
        countMax);
  }

  /** Returns what the answer says of itself, for a message: its status, and its detail or the first line of a text. */
  String told() {
    String said;
    try {
      String detail = string(json().get("detail"));
      said = detail == null ? "" : detail;
    } catch (MalformedAnswer e) {
      said = new String(body, StandardCharsets.UTF_8);
    }
    said = firstLine(said);
    return "answered " + status + (said.isEmpty() ? "" : ": " + said);
  }

  /** Returns the first line of a text from the network, short enough for a message, without control characters. */
  private static String firstLine(String text) {
    String line = text.trim().split("\n", 2)[0];
    int chars = Math.min(SAID_CHARS_MAX, line.codePointCount(0, line.length()));
    return line.substring(0, line.offsetByCodePoints(0, chars)).replaceAll("\\p{Cc}", " ").trim();
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> object(Object value) throws MalformedAnswer {
    if (value instanceof Map) {
      return (Map<String, Object>) value;
    }
    throw new MalformedAnswer("no JSON object");
  }

  /** Returns a member that is a text. */
  static String text(Map<String, Object> members, String name) throws MalformedAnswer {
    Object value = members.get(name);
    if (value instanceof String) {
      return (String) value;
    }
    throw new MalformedAnswer(name + " is no string");
  }

  private static String string(Object value) {
    return value instanceof String ? (String) value : null;
  }
}
