// Leases of worker ids, and the snowflakes that are made with them.

import { type Clock, sleepUntil, Stop } from "./clock.js";
import { Closed, InvalidArgument, Unavailable } from "./errors.js";
import type { Log, Network } from "./network.js";
import type { WorkerTerms } from "./answer.js";
import * as request from "./request.js";

/** The pause after a renewal that failed without ending the lease. */
const RENEW_AGAIN_MS = 1_000;

/** What a lease needs of its client. */
export interface Home {
  readonly network: Network;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly attemptTimeoutMs: number;
  readonly log: Log;
  lease(pool: string, seconds: number, holder: string): Promise<WorkerLease>;
  ended(lease: WorkerLease): void;
}

/** How the bits of a snowflake are used. */
export interface GeneratorOptions {
  /** The Unix millisecond from which times are counted; 1288834974657 by default. */
  epochMs?: number;
  /** 10 by default. */
  workerBits?: number;
  /** 12 by default. */
  sequenceBits?: number;
}

/** The same, complete. */
type Layout = Readonly<Required<GeneratorOptions>>;

function layoutOf({ epochMs = 1288834974657, workerBits = 10, sequenceBits = 12 }: GeneratorOptions): Layout {
  return { epochMs, workerBits, sequenceBits };
}

function isSame(one: Layout, other: Layout): boolean {
  return one.epochMs === other.epochMs && one.workerBits === other.workerBits && one.sequenceBits === other.sequenceBits;
}

const GENERATOR_OPTIONS: Record<keyof GeneratorOptions, true> = { epochMs: true, workerBits: true, sequenceBits: true };

/** A worker id that no other process has during its milliseconds. The client renews it. */
export class WorkerLease {
  readonly workerId: number;
  readonly fromMs: number;
  private until: number;
  private highest: number;
  private isOver = false;
  private lost = false;
  // Private by `#`, because console.log and JSON.stringify show all else: the name in the terms proves the holder, and the
  // client's token is behind its home.
  readonly #home: Home;
  readonly #terms: WorkerTerms;
  readonly #stop = new Stop();
  #made: { generator: WorkerSnowflakes; layout: Layout } | undefined;

  /** @internal */
  constructor(
    home: Home,
    readonly pool: string,
    terms: WorkerTerms,
    private readonly seconds: number,
    private readonly holder: string,
    private readonly grantedAt: number,
  ) {
    this.#home = home;
    this.#terms = terms;
    this.workerId = terms.workerId;
    this.fromMs = terms.fromMs;
    this.until = terms.untilMs;
    this.highest = terms.fromMs - 1;
    void this.renew();
  }

  /** The first millisecond after those of the lease. Renewals move it. */
  get untilMs(): number {
    return this.until;
  }

  /** Whether the lease can be renewed no more. Its milliseconds stay its own. */
  get isLost(): boolean {
    return this.lost;
  }

  /** Whether this Unix millisecond may be stamped with the worker id. Once the lease has a generator, all milliseconds are
   * the generator's, and none may. */
  mayStamp(ms: number): boolean {
    return this.#made === undefined && this.stamp(ms);
  }

  /** @internal Grants a millisecond to the program, or to the generator. */
  stamp(ms: number): boolean {
    if (this.isOver || !(ms >= this.fromMs && ms < this.until)) return false;
    if (ms > this.highest) this.highest = ms;
    return true;
  }

  /** @internal The highest millisecond that was stamped. */
  get highestMs(): number {
    return this.highest;
  }

  /** @internal The lease's own time. */
  now(): number {
    return this.fromMs + Math.floor(this.#home.clock.now() - this.grantedAt);
  }

  /** @internal */
  get isClosed(): boolean {
    return this.isOver;
  }

  /** The lease's one generator of snowflakes. From then on `mayStamp` grants nothing. */
  generator(options: GeneratorOptions = {}): WorkerSnowflakes {
    if (this.isOver) throw new Closed("lease");
    request.checkOptions(options, GENERATOR_OPTIONS);
    const layout = layoutOf(options);
    this.#made ??= { generator: new WorkerSnowflakes(this, layout), layout };
    if (!isSame(this.#made.layout, layout)) throw new InvalidArgument("the lease has a generator with other options already");
    return this.#made.generator;
  }

  /** @internal A lease in place of this one. */
  another(): Promise<WorkerLease> {
    return this.#home.lease(this.pool, this.seconds, this.holder);
  }

  /** Gives the rest back, unless the lease is lost. No millisecond is granted from now on. It waits for one attempt at
   * most, and never fails. */
  async close(): Promise<void> {
    if (this.isOver) return;
    this.isOver = true;
    this.#stop.stop();
    const { network, clock, attemptTimeoutMs } = this.#home;
    const current = this.#made?.generator.current;
    const ending = current !== undefined && !current.isClosed ? current.close() : undefined;
    const deadline = clock.now() + attemptTimeoutMs;
    const awake = clock.timer(deadline, () => {}, "awake");
    const back = request.giveBack(this.pool, this.#terms.lease, this.highest);
    if (!this.lost) await network.ask(back, deadline, new Stop());
    await ending;
    awake.clear();
    this.#home.ended(this);
  }

  private async renew(): Promise<void> {
    const { network, clock, timeoutMs, log } = this.#home;
    let at = this.grantedAt + this.seconds * 500;
    while (!this.lost) {
      await sleepUntil(clock, at, this.#stop);
      if (this.#stop.isStopped) return;
      const asking = request.renewal(this.pool, this.#terms.lease, this.seconds);
      const outcome = await network.ask(asking, clock.now() + timeoutMs, this.#stop);
      if (outcome.kind === "stopped") return;
      if (outcome.kind === "answered") {
        this.until = Math.max(this.until, outcome.value);
        at = clock.now() + this.seconds * 500;
      } else if (outcome.kind === "refused" && (outcome.error.status === 409 || outcome.error.status === 404)) {
        log("warn", `the lease of worker id ${this.workerId} of ${this.pool} is lost: ${outcome.error.message}`);
        this.lost = true;
      } else {
        log("warn", `a lease of ${this.pool} is not renewed yet: ${outcome.error.message}`);
        at = clock.now() + RENEW_AGAIN_MS;
      }
    }
    await this.#made?.generator.replace(this, this.#stop);
  }

  /** @internal Hands the generator of a lost lease on to this one. */
  follow(generator: WorkerSnowflakes): void {
    this.#made = { generator, layout: generator.layout };
  }

  /** @internal Waits before a lease in place of this one is asked for again. */
  pause(stop: Stop): Promise<void> {
    return sleepUntil(this.#home.clock, this.#home.clock.now() + RENEW_AGAIN_MS, stop);
  }
}

/** Snowflakes of one lease. Time is the lease's own: clocks that jump change nothing. */
export class WorkerSnowflakes {
  /** @internal */
  current: WorkerLease;
  private last: number;
  private id = 0n;
  private left = 0;

  /** @internal */
  constructor(
    private readonly origin: WorkerLease,
    /** @internal */
    readonly layout: Layout,
  ) {
    const { epochMs, workerBits, sequenceBits } = layout;
    request.checkNumber("epochMs", epochMs, 0, origin.fromMs);
    request.checkNumber("workerBits", workerBits, 1, 12);
    request.checkNumber("sequenceBits", sequenceBits, 1, 22);
    this.current = origin;
    this.checkWorker(origin);
    this.last = origin.highestMs;
    if (origin.isLost) void this.replace(origin, new Stop());
  }

  /** The worker id of the ids that come now. */
  get workerId(): number {
    return this.current.workerId;
  }

  /** The next id. Fails with `Unavailable` while the lease has no millisecond left. */
  nextId(): bigint {
    if (this.origin.isClosed || this.current.isClosed) throw new Closed("lease");
    const now = this.current.now();
    if (this.left === 0 || now > this.last) this.begin(Math.max(now, this.last + 1));
    this.left -= 1;
    const id = this.id;
    this.id = id + 1n;
    return id;
  }

  private begin(ms: number): void {
    if (!this.current.stamp(ms)) throw new Unavailable(`the lease ends at ${this.current.untilMs}`);
    const { epochMs, workerBits, sequenceBits } = this.layout;
    const time = BigInt(ms - epochMs);
    if (time >> BigInt(63 - workerBits - sequenceBits) !== 0n) throw new Unavailable("the time does not fit its bits");
    this.last = ms;
    this.left = 2 ** sequenceBits;
    this.id = ((time << BigInt(workerBits)) | BigInt(this.current.workerId)) << BigInt(sequenceBits);
  }

  private checkWorker(lease: WorkerLease): void {
    const { workerBits } = this.layout;
    if (lease.workerId >= 2 ** workerBits) {
      throw new InvalidArgument(`worker id ${lease.workerId} does not fit ${workerBits} bits`);
    }
  }

  /** @internal Goes on with a new lease. */
  async replace(lost: WorkerLease, stop: Stop): Promise<void> {
    while (lost === this.current && !stop.isStopped && !this.origin.isClosed) {
      try {
        const next = await lost.another();
        if (stop.isStopped || this.origin.isClosed) return void (await next.close());
        this.checkWorker(next);
        next.follow(this);
        this.current = next;
        this.left = 0;
        this.last = next.highestMs;
      } catch (error) {
        if (error instanceof Closed) return;
        await lost.pause(stop);
      }
    }
  }
}
