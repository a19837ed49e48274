package io.mintleaf.client;

import java.util.Collection;
import java.util.Collections;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * The lines of tags, by name. None is ever removed.
 *
 * <p>The lines whose names were the first to fall on a cell of an array are found there, with fewer dependent loads
 * than the map takes. A cell that is taken stays as it is, so that no two tags write it in turn.
 */
final class Lines {
  private static final int LINES_MAX = 10_000;
  /** Cells of the array; a power of two. */
  private static final int CELLS = 256;

  private final ConcurrentHashMap<String, Line> all = new ConcurrentHashMap<>();
  private final AtomicReferenceArray<Line> near = new AtomicReferenceArray<>(CELLS);

  /** Returns the line of a tag, or null if it is not in the array. */
  Line near(String tag) {
    Line line = near.get(cellOf(tag));
    return line != null && tag.equals(line.tag) ? line : null;
  }

  /** Returns the line of a tag, or null if there is none. */
  Line get(String tag) {
    Line line = near(tag);
    return line != null ? line : all.get(tag);
  }

  /** Returns the line of a tag, made if need be, or null if there are as many lines as a client keeps. */
  Line getOrMake(String tag, Function<String, Line> make) {
    if (all.size() >= LINES_MAX) {
      return all.get(tag);
    }
    Line line = all.computeIfAbsent(tag, make);
    near.compareAndSet(cellOf(tag), null, line);
    return line;
  }

  void forEach(Consumer<Line> action) {
    all.values().forEach(action);
  }

  Collection<Line> all() {
    return Collections.unmodifiableCollection(all.values());
  }

  private static int cellOf(String tag) {
    int hash = tag.hashCode();
    return (hash ^ hash >>> 16) & (CELLS - 1);
  }
}
