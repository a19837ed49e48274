// The size of the next lease.

/** The shortest time over which a rate is measured. */
const ELAPSED_MIN_MS = 1;
/** The largest factor between one size and the next, up or down. */
const STEP_MAX = 4;

/** The rules for sizes of one kind of line. */
export interface Rules {
  /** The size of the first lease. */
  readonly first: number;
  readonly min: number;
  readonly max: number;
  /** How long a lease is to last. */
  readonly lastsMs: number;
}

/** Chooses the sizes of the leases of one line. */
export class Sizing {
  /** The last size, without the ids that waiting calls wanted. */
  private last: number | undefined;
  private askedAt = 0;
  /** The size of the next lease, after a node has refused a larger one. */
  private countMax: number | undefined;

  constructor(private readonly rules: Rules) {}

  /** The size of a lease that is asked for now. `used` ids were handed out since the last one was asked for;
   * the calls that wait want `waiting` more. */
  next(now: number, used: number, waiting: number): number {
    const { first, max } = this.rules;
    if (this.countMax !== undefined) {
      const size = this.countMax;
      this.countMax = undefined;
      if (this.last !== undefined) this.last = Math.min(this.last, size);
      this.askedAt = now;
      return size;
    }
    const size = this.last === undefined ? Math.min(first, max) : this.following(this.last, now, used);
    this.last = size;
    this.askedAt = now;
    return Math.min(size + waiting, max);
  }

  /** Limits the next lease to this size, because one request may have no more. */
  atMost(countMax: number): void {
    this.countMax = countMax;
  }

  /** Halves the next sizes, because a node reports too many ids. */
  halve(): void {
    if (this.last !== undefined) this.last = Math.floor(this.last / 2);
  }

  private following(last: number, now: number, used: number): number {
    const { min, max, lastsMs } = this.rules;
    const elapsed = Math.max(now - this.askedAt, ELAPSED_MIN_MS);
    const wanted = clamp(Math.floor((used * lastsMs) / elapsed), Math.floor(last / STEP_MAX), last * STEP_MAX);
    return clamp(wanted, Math.min(min, max), max);
  }
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}
