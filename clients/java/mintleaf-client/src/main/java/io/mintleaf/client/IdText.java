package io.mintleaf.client;

/** Reads ids as nodes write them: decimal, 1 to 2^63-1, without sign or leading zero. */
final class IdText {
  private IdText() {}

  /** Returns the id, or -1 if the text is none. */
  static long parse(String text) {
    int length = text.length();
    if (length == 0 || length > 19 || text.charAt(0) == '0') {
      return -1;
    }
    long id = 0;
    for (int i = 0; i < length; i++) {
      int digit = text.charAt(i) - '0';
      if (digit < 0 || digit > 9) {
        return -1;
      }
      id = id * 10 + digit; // 19 digits are below 2^64, so an overflow shows as a negative number
    }
    return id < 0 ? -1 : id;
  }

  /** Returns the id before {@code end}, which may be 2^63; -1 if the text is no such end. */
  static long parseLast(String end) {
    if (end.equals("9223372036854775808")) {
      return Long.MAX_VALUE;
    }
    long parsed = parse(end);
    return parsed <= 1 ? -1 : parsed - 1;
  }
}
