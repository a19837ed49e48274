package io.mintleaf.client;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * One call of the user that waits for answers.
 *
 * <p>It ends once: with all that it wants, with a failure, or by its deadline.
 */
abstract class Call {
  /** When the call ends at the latest, on the ticker. */
  final long deadline;

  private final CountDownLatch ended = new CountDownLatch(1);
  private MintleafException failure;
  private boolean over;
  private volatile MintleafException lastAttempt;

  Call(long deadline) {
    this.deadline = deadline;
  }

  /** Ends the call with an answer of its own, which is wasted if the call has ended. */
  abstract void answered(Answer answer) throws MalformedAnswer;

  final synchronized boolean isOver() {
    return over;
  }

  /** Ends the call well. Called with the lock, while it is not over. */
  final void end() {
    over = true;
    ended.countDown();
  }

  /** Ends the call if its deadline has come. */
  final void endIfLate(long now) {
    if (deadline - now <= 0) {
      fail(late());
    }
  }

  final synchronized void fail(MintleafException why) {
    if (!over) {
      failure = why;
      end();
    }
  }

  /** Notes what an attempt for this call met, which its failure says if it ends by its deadline. */
  final void attemptFailed(MintleafException why) {
    lastAttempt = why;
  }

  /**
   * Waits until the call has ended.
   *
   * @throws MintleafException if it ended without what it wants
   */
  final void await(Ticker ticker) {
    try {
      if (!ended.await(deadline - ticker.nanos(), TimeUnit.NANOSECONDS)) {
        fail(late());
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      fail(MintleafException.interrupted());
    }
    synchronized (this) {
      if (failure != null) {
        throw failure.here();
      }
    }
  }

  private MintleafException late() {
    MintleafException last = lastAttempt;
    return last != null ? last : MintleafException.unavailable("no answer yet");
  }
}
