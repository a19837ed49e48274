package io.mintleaf.client;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * One call of the user that wants ids, and what it has been given.
 *
 * <p>It ends once: with all its ids, with a failure, or by its deadline. What it was given and does not
 * return is wasted.
 */
final class Call {
  final int wanted;
  /** When the call ends at the latest, on the ticker. */
  final long deadline;

  private final CountDownLatch ended = new CountDownLatch(1);
  private final long[] ids;
  private int given;
  private String[] texts;
  private MintleafException failure;
  private boolean over;
  private volatile MintleafException lastAttempt;

  Call(int wanted, long deadline) {
    this.wanted = wanted;
    this.deadline = deadline;
    this.ids = new long[wanted];
  }

  synchronized int missing() {
    return wanted - given;
  }

  synchronized boolean isOver() {
    return over;
  }

  /** Takes all of {@code range}, which is no more than what is missing; the last missing id ends the call. */
  synchronized void give(IdRange range) {
    if (over) {
      return;
    }
    for (long i = 0; i < range.size; i++) {
      ids[given++] = range.first + i;
    }
    if (given == wanted) {
      end();
    }
  }

  /** Ends the call with the ids of an answer of its own, to the letter. */
  synchronized void give(String[] answered) {
    if (!over) {
      texts = answered;
      end();
    }
  }

  /** Takes the last missing ids from an answer that told the tag's shape. They are decimal numbers. */
  synchronized void giveLast(String[] answered) {
    for (String id : answered) {
      ids[given++] = IdText.parse(id);
    }
    end();
  }

  /** Drops what was given so far, which is wasted. */
  synchronized void forget() {
    given = 0;
  }

  /** Ends the call if its deadline has come. */
  void endIfLate(long now) {
    if (deadline - now <= 0) {
      fail(late());
    }
  }

  synchronized void fail(MintleafException why) {
    if (!over) {
      failure = why;
      end();
    }
  }

  /** Notes what an attempt for this call met, to be told if the call ends by its deadline. */
  void attemptFailed(MintleafException why) {
    lastAttempt = why;
  }

  /**
   * Waits until the call has ended.
   *
   * @throws MintleafException if it ended without its ids
   */
  void await(Ticker ticker) {
    try {
      if (!ended.await(deadline - ticker.nanos(), TimeUnit.NANOSECONDS)) {
        fail(late());
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      fail(new MintleafException("interrupted", 0, "interrupted while waiting for ids"));
    }
    synchronized (this) {
      if (failure != null) {
        throw failure.here();
      }
    }
  }

  /** Returns the ids as numbers. The call has ended well. */
  synchronized long[] numbers() {
    if (texts == null) {
      return ids;
    }
    for (int i = 0; i < wanted; i++) {
      long id = IdText.parse(texts[i]);
      if (id <= 0) {
        throw new MintleafException(
            "not_a_number", 0, "the ids are texts, as \"" + texts[i] + "\" is: take them with nextText");
      }
      ids[i] = id;
    }
    return ids;
  }

  /** Returns whether the ids came to the letter, in the order of the answer. */
  synchronized boolean isText() {
    return texts != null;
  }

  /** Returns the first id to the letter, or in decimal. The call has ended well. */
  synchronized String text() {
    return texts == null ? Long.toString(ids[0]) : texts[0];
  }

  private MintleafException late() {
    MintleafException last = lastAttempt;
    if (last == null) {
      return MintleafException.unavailable("no answer until the call's deadline");
    }
    return last;
  }

  private void end() {
    over = true;
    ended.countDown();
  }
}
