// Time, and what ends a wait.

/** A timer that is set. */
export interface Timer {
  clear(): void;
}

/** A monotonic clock, in milliseconds. Tests have one that they step. */
export interface Clock {
  now(): number;
  /** Calls back once `at` is reached, never before. Only an `awake` timer keeps the process alive. */
  timer(at: number, callback: () => void, awake?: "awake"): Timer;
}

/** The clock of the process. It does not follow the time of day. */
export const processClock: Clock = {
  now: () => performance.now(),
  timer(at, callback, awake) {
    let timer: NodeTimer;
    const set = (): void => {
      timer = setTimeout(() => (performance.now() < at ? set() : callback()), Math.max(1, Math.ceil(at - performance.now())));
      if (awake === undefined) timer.unref();
    };
    set();
    return { clear: () => clearTimeout(timer) };
  },
};

/** Ends waits. Once stopped, it stays stopped. */
export class Stop {
  isStopped = false;
  private readonly listeners = new Set<() => void>();

  stop(): void {
    if (this.isStopped) return;
    this.isStopped = true;
    for (const listener of this.listeners) listener();
    this.listeners.clear();
  }

  /** Calls back when it stops, at once if it has. Returns what takes this back. */
  onStop(listener: () => void): () => void {
    if (this.isStopped) {
      listener();
      return () => {};
    }
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
}

/** Returns at this time, or earlier when it is stopped. */
export function sleepUntil(clock: Clock, at: number, stop: Stop): Promise<void> {
  if (at <= clock.now() || stop.isStopped) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = clock.timer(at, () => {
      forget();
      resolve();
    });
    const forget = stop.onStop(() => {
      timer.clear();
      resolve();
    });
  });
}
