package io.mintleaf.client;

import java.nio.charset.StandardCharsets;

/** Checks names of tags and keys, and writes them as one segment of a path. */
final class Names {
  private static final int TAG_CHARACTERS_MAX = 128;
  private static final int KEY_BYTES_MAX = 256;
  private static final String PLAIN =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~";
  private static final String HEX = "0123456789ABCDEF";

  private Names() {}

  static void checkTag(String tag) {
    int characters = tag.codePointCount(0, tag.length());
    boolean sized = characters >= 1 && characters <= TAG_CHARACTERS_MAX;
    if (!sized || tag.chars().anyMatch(Character::isISOControl) || !isUnicode(tag)) {
      throw new IllegalArgumentException(
          "a tag or a pool has 1 to " + TAG_CHARACTERS_MAX + " characters, no control characters and no lone surrogates");
    }
  }

  static void checkKey(String key) {
    int bytes = key.getBytes(StandardCharsets.UTF_8).length;
    if (bytes < 1 || bytes > KEY_BYTES_MAX || !isUnicode(key)) {
      throw new IllegalArgumentException("a key has 1 to " + KEY_BYTES_MAX + " bytes of UTF-8");
    }
  }

  /** Returns the end of a path: a tag and one of its keys, which are checked. */
  static String pathOf(String tag, String key) {
    checkTag(tag);
    checkKey(key);
    return escape(tag) + "/" + escape(key);
  }

  /** Returns whether UTF-8 can say the name; what it cannot would be sent as another name. */
  private static boolean isUnicode(String name) {
    return StandardCharsets.UTF_8.newEncoder().canEncode(name);
  }

  /** Escapes every byte but letters, digits, {@code -}, {@code _} and {@code ~}; the dot too, so that none means a way up. */
  static String escape(String name) {
    StringBuilder escaped = new StringBuilder();
    for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
      if (b > 0 && PLAIN.indexOf((char) b) >= 0) {
        escaped.append((char) b);
      } else {
        escaped.append('%').append(HEX.charAt((b >> 4) & 15)).append(HEX.charAt(b & 15));
      }
    }
    return escaped.toString();
  }
}
