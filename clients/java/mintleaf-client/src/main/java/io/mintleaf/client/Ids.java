package io.mintleaf.client;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The ids of one whole answer, checked: exactly as many as were asked for, none twice.
 *
 * <p>An answer that fails a check is thrown away whole.
 */
final class Ids {
  /** Whether the client may keep what a call does not use: false only if the answer says {@code "lease": false}. */
  final boolean lease;
  /** The ids to the letter, if they were asked for one by one; else null. */
  final String[] texts;
  /** The ids as ranges that rise, if they were asked for so; else null. */
  final List<IdRange> ranges;

  private Ids(boolean lease, String[] texts, List<IdRange> ranges) {
    this.lease = lease;
    this.texts = texts;
    this.ranges = ranges;
  }

  static Ids oneByOne(Map<String, Object> answer, int count) throws MalformedAnswer {
    List<?> ids = list(answer.get("ids"));
    if (ids.size() != count) {
      throw new MalformedAnswer(ids.size() + " ids instead of " + count);
    }
    boolean lease = lease(answer);
    String[] texts = new String[count];
    Set<String> seen = new HashSet<>();
    long before = 0;
    for (int i = 0; i < count; i++) {
      texts[i] = text(ids.get(i));
      if (texts[i].isEmpty() || !seen.add(texts[i])) {
        throw new MalformedAnswer("id " + i + " is empty or a repetition");
      }
      if (lease) {
        long id = IdText.parse(texts[i]);
        if (id <= before) {
          throw new MalformedAnswer("id " + i + " is no number from 1 to 2^63-1 above the one before");
        }
        before = id;
      }
    }
    return new Ids(lease, texts, null);
  }

  static Ids inRanges(Map<String, Object> answer, int count) throws MalformedAnswer {
    List<IdRange> ranges = new ArrayList<>();
    long before = 0;
    long total = 0;
    for (Object element : list(answer.get("ranges"))) {
      Map<String, Object> range = Answer.object(element);
      long first = IdText.parse(text(range.get("start")));
      long last = IdText.parseLast(text(range.get("end")));
      if (first <= before || last < first) {
        throw new MalformedAnswer("range " + ranges.size() + " is empty, out of bounds or not above the one before");
      }
      long size = last - first + 1;
      total += size;
      if (size > count || total > count) {
        throw new MalformedAnswer("more ids than the " + count + " asked for");
      }
      ranges.add(new IdRange(first, size));
      before = last;
    }
    if (total != count) {
      throw new MalformedAnswer(total + " ids instead of " + count);
    }
    return new Ids(lease(answer), null, ranges);
  }

  private static boolean lease(Map<String, Object> answer) throws MalformedAnswer {
    Object lease = answer.get("lease");
    if (lease == null && !answer.containsKey("lease")) {
      return true;
    }
    if (lease instanceof Boolean) {
      return (Boolean) lease;
    }
    throw new MalformedAnswer("lease is neither true nor false");
  }

  private static List<?> list(Object value) throws MalformedAnswer {
    if (value instanceof List) {
      return (List<?>) value;
    }
    throw new MalformedAnswer("no list of ids");
  }

  private static String text(Object value) throws MalformedAnswer {
    if (value instanceof String) {
      return (String) value;
    }
    throw new MalformedAnswer("an id that is no string");
  }
}
