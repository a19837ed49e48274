// One line: a tag or the snowflakes, its leases, the calls that wait for ids, and when the next lease is asked for.
//
// Ids are handed out from the *run*: the first ids of the current lease, up to the end of a range or to the one that
// marks when to ask for the next lease. At its end the line settles: it serves the calls that wait, asks for the next
// lease, and makes the next run. Counts of ids are numbers; ids are bigints, always.

import type { Ids, Range } from "./answer.js";
import type { Timer } from "./clock.js";
import { Closed, type MintleafError, Overloaded, type Refused, Unavailable } from "./errors.js";
import type { Informed, Outcome } from "./network.js";
import { type Rules, Sizing } from "./sizing.js";

/** The largest number of calls that wait on one line. */
export const CALLS_MAX = 10_000;

/** What all lines of a kind share. */
export interface Kind {
  readonly rules: Rules;
  /** How long a lease may be used after its answer. */
  readonly freshForMs: number;
  /** How long a flight may take that asks for a lease before any call waits. */
  readonly aheadMs: number;
  /** Whether ids of this kind can be leased for certain. */
  readonly isLeased: boolean;
}

/** A call that waits, and what it has. */
export interface Call {
  /** How many ids it wants in total. */
  readonly count: number;
  /** How many it still lacks. */
  lacks: number;
  readonly got: bigint[];
  readonly deadline: number;
  /** Ends the call with its ids, or with the ids as the node wrote them. */
  readonly give: (got: bigint[], listed?: string[]) => void;
  readonly fail: (error: MintleafError) => void;
}

/** What a flight asks for. */
export interface Order {
  readonly count: number;
  /** Whether it asks for ranges. Otherwise it asks for a list, which serves the first call. */
  readonly asRanges: boolean;
  readonly deadline: number;
}

/** What a line needs. None of it calls the line before it returns. */
export interface Port {
  now(): number;
  /** Starts a flight, whose end is handed to [`Line.landed`]. */
  fly(order: Order): void;
  /** Lets a call send its own request. It counts as waiting until [`Line.ownCallEnded`]. */
  flyAlone(call: Call): void;
  /** A timer that keeps the process alive. */
  awake(at: number, callback: () => void): Timer;
}

interface Lease {
  readonly ranges: Range[];
  readonly total: number;
  /** How many of its ids are used. */
  used: number;
  /** The next lease is asked for once so many ids are used. */
  mark: number;
  readonly staleAt: number;
}

/** Half of what is left, counted from the first id. The last one or two ids have no mark: a caller that wants an id
 * now and then is better off with one request for each. */
function markOf(used: number, total: number): number {
  const left = total - used;
  return left > 2 ? used + Math.ceil(left / 2) : Infinity;
}

export class Line implements Informed {
  /** The next id, how many ids the run has left, and how many it had. */
  private next = 0n;
  private run = 0;
  private runWas = 0;
  private staleAt = Infinity;

  private leases: Lease[] = [];
  /** In order of arrival. */
  private readonly calls = new Set<Call>();
  private ownCalls = 0;
  private shape: "unknown" | "leased" | "byCall";
  private isFlying = false;
  /** The call that the flight's list is for. */
  private asker: Call | undefined;
  private readonly sizing: Sizing;
  /** Ids handed out so far, those of the run apart, and the same when the last lease was asked for. */
  private handed = 0;
  private handedWhenAsked = 0;
  private lastMet: MintleafError | undefined;
  private limit: { endpoint: number; at: number } | undefined;
  private isClosed = false;
  private timer: Timer | undefined;
  /** Leases that came, and how many ids they had. */
  leasesLanded = 0;
  leasedIds = 0;

  constructor(
    private readonly kind: Kind,
    private readonly port: Port,
  ) {
    this.shape = kind.isLeased ? "leased" : "unknown";
    this.sizing = new Sizing(kind.rules);
  }

  /** An id that is held, if there is one. */
  take(): bigint | undefined {
    if (this.run === 0 || (this.staleAt !== Infinity && this.isStale())) return undefined;
    const id = this.next;
    this.next = id + 1n;
    if (--this.run === 0) this.settle();
    return id;
  }

  /** `count` ids that are held in one run, if it has so many. */
  takeMany(count: number): bigint[] | undefined {
    if (this.run < count || (this.staleAt !== Infinity && this.isStale())) return undefined;
    const ids = new Array<bigint>(count);
    let id = this.next;
    for (let at = 0; at < count; at++, id += 1n) ids[at] = id;
    this.next = id;
    this.run -= count;
    if (this.run === 0) this.settle();
    return ids;
  }

  private isStale(): boolean {
    if (this.port.now() < this.staleAt) return false;
    this.settle();
    return this.run === 0 || this.isStale();
  }

  get held(): number {
    return this.leases.reduce((sum, lease) => sum + lease.total - lease.used, 0) - (this.runWas - this.run);
  }

  get handedOut(): number {
    return this.handed + this.runWas - this.run;
  }

  get waiting(): number {
    return this.calls.size + this.ownCalls;
  }

  /** A call wants more than the run has. */
  want(call: Call): void {
    if (this.isClosed) call.fail(new Closed());
    else if (this.waiting >= CALLS_MAX) call.fail(new Overloaded());
    else if (this.shape === "byCall") this.alone(call);
    else {
      this.calls.add(call);
      this.settle();
    }
  }

  /** A call has been given up by its caller. */
  forget(call: Call): void {
    if (this.calls.delete(call)) this.watchDeadlines();
  }

  /** The flight has ended. */
  landed(outcome: Outcome<Ids>): void {
    this.isFlying = false;
    if (this.isClosed || outcome.kind === "stopped") return;
    if (outcome.kind === "answered") this.arrived(outcome.value);
    else if (outcome.kind === "refused") this.refused(outcome.error);
    else {
      this.expire();
      this.postpone();
    }
    this.settle();
  }

  met(error: MintleafError): void {
    this.lastMet = error;
  }

  rateLimited(endpoint: number, until: number): void {
    this.limit = { endpoint, at: until };
    this.sizing.halve();
  }

  limited(now: number): { endpoint: number; at: number } | undefined {
    return this.limit !== undefined && this.limit.at > now ? this.limit : undefined;
  }

  /** A call that sent its own request has ended, perhaps with a refusal. */
  ownCallEnded(error: MintleafError | undefined): void {
    this.ownCalls -= 1;
    if (error !== undefined) this.forgetShape(error);
  }

  /** Throws away what is held. The line hands out nothing from then on. */
  close(): void {
    this.isClosed = true;
    this.takeBack();
    this.leases = [];
    this.failAll(new Closed());
    this.watchDeadlines();
  }

  private alone(call: Call): void {
    this.ownCalls += 1;
    this.port.flyAlone(call);
  }

  private arrived({ ranges, listed }: Ids): void {
    this.lastMet = undefined;
    if (ranges !== undefined) {
      this.shape = "leased";
      const total = ranges.reduce((sum, { count }) => sum + count, 0);
      const staleAt = this.port.now() + this.kind.freshForMs;
      this.leases.push({ ranges, total, used: 0, mark: markOf(0, total), staleAt });
      this.leasesLanded += 1;
      this.leasedIds += total;
      return;
    }
    this.shape = "byCall";
    const [first] = this.calls;
    if (listed !== undefined && first !== undefined && first === this.asker) {
      this.calls.delete(first);
      this.handed += listed.length;
      first.give([], listed);
    }
    const others = [...this.calls];
    this.calls.clear();
    for (const call of others) this.alone(call);
  }

  private refused(error: Refused): void {
    if (error.countMax !== undefined) {
      // The next flight asks for what one request may have.
      this.sizing.atMost(error.countMax);
      return;
    }
    this.forgetShape(error);
    this.failAll(error);
    this.postpone();
  }

  private failAll(error: MintleafError): void {
    const calls = [...this.calls];
    this.calls.clear();
    for (const call of calls) call.fail(error);
  }

  /** Ends the calls whose time is over. All calls of a client wait equally long, so the oldest ends first. */
  private expire(): void {
    for (const call of this.calls) {
      if (call.deadline > this.port.now()) break;
      this.calls.delete(call);
      call.fail(this.lastMet ?? new Unavailable("no answer yet"));
    }
  }

  /** Serves the waiting calls, in their order, from what is held. Then orders the next lease and makes a run. */
  private settle(): void {
    this.takeBack();
    const now = this.port.now();
    this.leases = this.leases.filter((lease) => now < lease.staleAt);
    for (const call of this.calls) {
      for (const lease of this.leases) this.give(lease, call);
      if (call.lacks > 0) break;
      this.calls.delete(call);
      call.give(call.got);
    }
    this.leases = this.leases.filter((lease) => lease.used < lease.total);
    const order = this.isFlying || this.isClosed ? undefined : this.order(now);
    this.isFlying ||= order !== undefined;
    this.makeRun();
    this.watchDeadlines();
    if (order !== undefined) this.port.fly(order);
  }

  private give(lease: Lease, call: Call): void {
    while (call.lacks > 0 && lease.ranges[0] !== undefined) {
      const front = lease.ranges[0];
      const given = Math.min(front.count, call.lacks);
      for (let at = 0; at < given; at++) call.got.push(front.start + BigInt(at));
      call.lacks -= given;
      this.use(lease, given);
      this.handed += given;
    }
  }

  /** Takes ids off the front range. */
  private use(lease: Lease, count: number): void {
    const front = lease.ranges[0] as Range;
    front.start += BigInt(count);
    front.count -= count;
    lease.used += count;
    if (front.count === 0) lease.ranges.shift();
  }

  private order(now: number): Order | undefined {
    const [first] = this.calls;
    const deadline = first?.deadline ?? now + this.kind.aheadMs;
    this.asker = first;
    if (this.shape === "byCall" || (this.shape === "unknown" && first === undefined)) return undefined;
    if (this.shape === "unknown") return { count: (first as Call).count, asRanges: false, deadline };
    const [present] = this.leases;
    const isHalfUsed = present !== undefined && this.leases.length === 1 && present.used >= present.mark;
    if (first === undefined && !isHalfUsed) return undefined;
    let waiting = 0;
    for (const call of this.calls) waiting += call.lacks;
    const used = this.handed - this.handedWhenAsked;
    this.handedWhenAsked = this.handed;
    return { count: this.sizing.next(now, used, waiting), asRanges: true, deadline };
  }

  /** Accounts for what was taken from the run, and ends it. */
  private takeBack(): void {
    const [present] = this.leases;
    const used = this.runWas - this.run;
    if (present !== undefined && used > 0) {
      this.use(present, used);
      this.handed += used;
    }
    this.run = this.runWas = 0;
  }

  private makeRun(): void {
    const [present] = this.leases;
    const front = present?.ranges[0];
    if (present === undefined || front === undefined) return;
    const asks = this.leases.length === 1 && !this.isFlying && this.shape === "leased" && present.mark > present.used;
    this.next = front.start;
    this.run = this.runWas = asks ? Math.min(front.count, present.mark - present.used) : front.count;
    this.staleAt = present.staleAt;
  }

  /** After a failure, the next lease is asked for when half of what is left is used. */
  private postpone(): void {
    this.takeBack();
    const [present] = this.leases;
    if (present !== undefined) present.mark = markOf(present.used, present.total);
  }

  private forgetShape(error: MintleafError): void {
    const { status } = error as Refused;
    if ((status === 400 || status === 404) && !this.kind.isLeased) this.shape = "unknown";
  }

  /** Has a timer exactly while calls wait. */
  private watchDeadlines(): void {
    const [first] = this.calls;
    if (first === undefined) {
      this.timer?.clear();
      this.timer = undefined;
    } else if (this.timer === undefined) {
      this.timer = this.port.awake(first.deadline, () => {
        this.timer = undefined;
        this.expire();
        this.watchDeadlines();
      });
    }
  }
}
