package io.mintleaf.client;

/**
 * The id that a thread takes next, alone on its cache lines.
 *
 * <p>It is written with every id, and whatever shared a line with it would be slow to read for all other threads.
 * Fields of a superclass lie before those of its subclass.
 */
final class Cursor extends CursorField {
  long behind1;
  long behind2;
  long behind3;
  long behind4;
  long behind5;
  long behind6;
  long behind7;

  Cursor(long next) {
    this.next = next;
  }
}

abstract class CursorPadding {
  long before1;
  long before2;
  long before3;
  long before4;
  long before5;
  long before6;
  long before7;
}

abstract class CursorField extends CursorPadding {
  /** Plain: only one thread reads and writes it while that thread lives. */
  long next;
}
