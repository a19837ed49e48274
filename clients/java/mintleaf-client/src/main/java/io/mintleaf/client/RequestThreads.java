package io.mintleaf.client;

import java.util.ArrayDeque;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** The threads of a client: a few that wait for answers, while there are any to wait for, and a timer. */
final class RequestThreads implements AutoCloseable {
  private static final AtomicInteger CLIENTS = new AtomicInteger();
  private static final int ACTIVE_MAX = 64;
  private static final long IDLE_SECONDS = 5;
  private static final long CLOSE_MILLIS = 500;

  private final String name;
  private final ThreadPoolExecutor threads;
  private final ScheduledThreadPoolExecutor timer;
  private final ArrayDeque<Runnable> waiting = new ArrayDeque<>();
  private int active;
  private boolean closed;

  RequestThreads() {
    name = "mintleaf-client-" + CLIENTS.incrementAndGet();
    threads = new ThreadPoolExecutor(
        0, ACTIVE_MAX + 1, IDLE_SECONDS, TimeUnit.SECONDS, new SynchronousQueue<>(), daemons(name));
    timer = new ScheduledThreadPoolExecutor(1, daemons(name + "-timer"));
    timer.setRemoveOnCancelPolicy(true);
  }

  ScheduledThreadPoolExecutor timer() {
    return timer;
  }

  /** Returns what the names of all its threads begin with. */
  String name() {
    return name;
  }

  /** Returns how many tasks are under way. */
  synchronized int active() {
    return active;
  }

  /** Runs the task on a thread of its own, after those before it where 64 are under way. */
  synchronized void execute(Runnable task) {
    if (closed) {
      return;
    }
    if (active == ACTIVE_MAX) {
      waiting.add(task);
      return;
    }
    active++;
    threads.execute(() -> runAll(task));
  }

  /** Runs the task as above, once some time has passed. */
  synchronized void executeAfter(Runnable task, long nanos) {
    if (!closed) {
      timer.schedule(() -> execute(task), nanos, TimeUnit.NANOSECONDS);
    }
  }

  private void runAll(Runnable first) {
    Runnable task = first;
    while (task != null) {
      try {
        task.run();
      } finally {
        task = nextTask();
      }
    }
  }

  private synchronized Runnable nextTask() {
    Runnable task = closed ? null : waiting.poll();
    if (task == null) {
      active--;
    }
    return task;
  }

  /** Ends all threads. Those that were in a request must have been told by other means. */
  @Override
  public void close() {
    synchronized (this) {
      closed = true;
      waiting.clear();
    }
    threads.shutdownNow();
    timer.shutdownNow();
    try {
      timer.awaitTermination(CLOSE_MILLIS, TimeUnit.MILLISECONDS);
      threads.awaitTermination(CLOSE_MILLIS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static ThreadFactory daemons(String name) {
    AtomicInteger count = new AtomicInteger();
    return task -> {
      Thread thread = new Thread(task, name + "-" + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }
}
