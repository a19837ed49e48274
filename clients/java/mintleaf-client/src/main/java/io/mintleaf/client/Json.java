package io.mintleaf.client;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads JSON (RFC 8259) into maps, lists, strings, booleans, nulls and numbers.
 *
 * <p>Stricter than the RFC asks for: a key that comes twice, nesting deeper than 16, and anything behind
 * the value are errors. Numbers come as {@link Double}; ids are strings.
 */
final class Json {
  private static final int DEPTH_MAX = 16;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /**
   * Returns the value that {@code text} is.
   *
   * @throws MalformedAnswer if it is not one JSON value
   */
  static Object parse(String text) throws MalformedAnswer {
    Json json = new Json(text);
    Object value = json.value(0);
    json.space();
    if (json.at != text.length()) {
      throw json.wrong();
    }
    return value;
  }

  /** Returns a text as a JSON string. */
  static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c < ' ' || c == '"' || c == '\\') {
        quoted.append(String.format("\\u%04x", (int) c));
      } else {
        quoted.append(c);
      }
    }
    return quoted.append('"').toString();
  }

  private Object value(int depth) throws MalformedAnswer {
    if (depth > DEPTH_MAX) {
      throw wrong();
    }
    space();
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string();
      case 't':
        return word("true", Boolean.TRUE);
      case 'f':
        return word("false", Boolean.FALSE);
      case 'n':
        return word("null", null);
      default:
        return number();
    }
  }

  private Map<String, Object> object(int depth) throws MalformedAnswer {
    Map<String, Object> members = new HashMap<>();
    at++;
    space();
    if (peek() == '}') {
      at++;
      return members;
    }
    while (true) {
      space();
      String key = string();
      space();
      expect(':');
      Object value = value(depth + 1);
      if (members.containsKey(key)) {
        throw wrong();
      }
      members.put(key, value);
      space();
      if (peek() == '}') {
        at++;
        return members;
      }
      expect(',');
    }
  }

  private List<Object> array(int depth) throws MalformedAnswer {
    List<Object> elements = new ArrayList<>();
    at++;
    space();
    if (peek() == ']') {
      at++;
      return elements;
    }
    while (true) {
      elements.add(value(depth + 1));
      space();
      if (peek() == ']') {
        at++;
        return elements;
      }
      expect(',');
    }
  }

  private String string() throws MalformedAnswer {
    expect('"');
    int from = at;
    while (peek() != '"' && peek() != '\\' && peek() >= ' ') {
      at++;
    }
    if (peek() == '"') {
      return text.substring(from, at++);
    }
    StringBuilder read = new StringBuilder(text.substring(from, at));
    while (true) {
      char c = peek();
      at++;
      if (c == '"') {
        return read.toString();
      }
      if (c < ' ') {
        throw wrong();
      }
      read.append(c == '\\' ? escape() : c);
    }
  }

  private char escape() throws MalformedAnswer {
    char c = peek();
    at++;
    int plain = "\"\\/bfnrt".indexOf(c);
    if (plain >= 0) {
      return "\"\\/\b\f\n\r\t".charAt(plain);
    }
    if (c != 'u' || at + 4 > text.length()) {
      throw wrong();
    }
    int unit = 0;
    for (int i = 0; i < 4; i++) {
      int digit = Character.digit(text.charAt(at++), 16);
      if (digit < 0) {
        throw wrong();
      }
      unit = unit * 16 + digit;
    }
    return (char) unit;
  }

  private Double number() throws MalformedAnswer {
    int from = at;
    while (at < text.length() && "+-.0123456789Ee".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    String number = text.substring(from, at);
    if (!number.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
      throw wrong();
    }
    return Double.valueOf(number);
  }

  private <T> T word(String word, T value) throws MalformedAnswer {
    if (!text.startsWith(word, at)) {
      throw wrong();
    }
    at += word.length();
    return value;
  }

  private void expect(char c) throws MalformedAnswer {
    if (peek() != c) {
      throw wrong();
    }
    at++;
  }

  private char peek() throws MalformedAnswer {
    if (at >= text.length()) {
      throw wrong();
    }
    return text.charAt(at);
  }

  private void space() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private MalformedAnswer wrong() {
    return new MalformedAnswer("no JSON at character " + at);
  }
}
