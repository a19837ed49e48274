// The client: its lines, and the calls on them.

import { type Ids, numberOf, type Registered } from "./answer.js";
import { type Clock, processClock, Stop } from "./clock.js";
import { Endpoints } from "./endpoints.js";
import { Closed, InvalidArgument, MintleafError, NotANumber, Overloaded } from "./errors.js";
import { type Call, CALLS_MAX, type Kind, Line } from "./line.js";
import { type Log, Network, type Outcome } from "./network.js";
import * as request from "./request.js";
import { HttpTransport, type Pem, type Transport } from "./transport.js";
import { type Home, WorkerLease } from "./worker.js";
import { hostname } from "node:os";

/** The largest number of tags whose ids are kept. Calls for further tags each send their own request. */
const LINES_MAX = 10_000;
const LEASE_MAX = 1_000_000;
const SNOWFLAKES_MAX = 100_000;
const SNOWFLAKES_FRESH_FOR_MS = 1_000;
const DAY_MS = 86_400_000;

export interface ClientOptions {
  /** The nodes: `http://HOST:PORT` or `https://HOST:PORT`. */
  endpoints: readonly string[];
  token?: string | undefined;
  /** A file that holds the token. It is read again when it changes. */
  tokenFile?: string | undefined;
  /** Nodes in this zone are asked first. */
  zone?: string | undefined;
  /** The CAs that are trusted over https, in place of those of Node.js. */
  ca?: Pem | ReadonlyArray<Pem> | undefined;
  caFile?: string | undefined;
  /** The certificate and the key that the client shows over https. */
  cert?: Pem | undefined;
  key?: Pem | undefined;
  /** How long a call waits; 10,000 by default. */
  timeoutMs?: number | undefined;
  /** How long one node may take before the next one is asked; 2,500 by default. */
  attemptTimeoutMs?: number | undefined;
  /** How long connecting may take, TLS included; 1,000 by default. */
  connectTimeoutMs?: number | undefined;
  /** The most ids in one lease; 1,000,000 by default. */
  leaseMax?: number | undefined;
  /** Takes what the client has to say. */
  logger?: Log | undefined;
}

export interface CallOptions {
  /** Ends the call with the signal's reason. Ids that it had are wasted. */
  signal?: AbortSignal | undefined;
}

export interface LeaseWorkerOptions extends CallOptions {
  /** How long the worker id is leased and renewed for, 5 to 3,600; 60 by default. */
  seconds?: number | undefined;
  /** Who holds it, for operators; host name and process id by default. */
  holder?: string | undefined;
}

/** The names of all options. The types keep them complete. */
const CLIENT_OPTIONS: Record<keyof ClientOptions, true> = {
  endpoints: true,
  token: true,
  tokenFile: true,
  zone: true,
  ca: true,
  caFile: true,
  cert: true,
  key: true,
  timeoutMs: true,
  attemptTimeoutMs: true,
  connectTimeoutMs: true,
  leaseMax: true,
  logger: true,
};
const CALL_OPTIONS: Record<keyof CallOptions, true> = { signal: true };
const LEASE_WORKER_OPTIONS: Record<keyof LeaseWorkerOptions, true> = { seconds: true, holder: true, signal: true };

/** What a client has done since it was made, and how it stands. */
export interface ClientStats {
  readonly requests: number;
  readonly failedRequests: number;
  readonly requestsUnderWay: number;
  readonly leases: number;
  readonly leasedIds: number;
  readonly handedOut: number;
  readonly held: number;
  readonly waitingCalls: number;
  readonly waits: number;
  readonly tags: number;
}

/** @internal What tests put in place of the real ones. */
export interface Parts {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly random: () => number;
}

/** Ids of a cluster, from memory. One client serves a whole process. */
export class Client {
  private readonly clock: Clock;
  // Private by `#`, because console.log shows all else, and the token is behind these.
  readonly #transport: Transport;
  readonly #network: Network;
  readonly #home: Home;
  private readonly lines = new Map<string, Line>();
  private readonly snowflakes: Line;
  private readonly leases = new Set<WorkerLease>();
  private readonly stop = new Stop();
  private readonly timeoutMs: number;
  private readonly tagKind: Kind;
  private looseCalls = 0;
  private waits = 0;
  private closing: Promise<void> | undefined;

  constructor(options: ClientOptions);
  /** @internal */
  constructor(options: ClientOptions, parts: Partial<Parts>);
  constructor(options: ClientOptions, parts: Partial<Parts> = {}) {
    request.checkOptions(options, CLIENT_OPTIONS);
    const { endpoints, zone, timeoutMs = 10_000, attemptTimeoutMs = 2_500, connectTimeoutMs = 1_000, leaseMax = LEASE_MAX } = options;
    if (!Array.isArray(endpoints) || endpoints.length === 0) throw new InvalidArgument("endpoints must name a node");
    for (const [name, ms] of Object.entries({ timeoutMs, attemptTimeoutMs, connectTimeoutMs })) {
      request.checkNumber(name, ms, 1, DAY_MS);
    }
    request.checkNumber("leaseMax", leaseMax, 1, LEASE_MAX);
    const log: Log = (level, message) => {
      try {
        options.logger?.(level, message);
      } catch {
        // A logger that fails ends no call.
      }
    };
    const warn = (message: string): void => log("warn", message);
    this.clock = parts.clock ?? processClock;
    const { token, tokenFile, ca, caFile, cert, key } = options;
    const http = { endpoints, token, tokenFile, ca, caFile, cert, key, connectTimeoutMs, userAgent: "mintleaf-client-node", warn };
    this.#transport = parts.transport ?? new HttpTransport(http, this.clock);
    const order = new Endpoints(endpoints.length, parts.random ?? Math.random);
    this.#network = new Network(this.clock, this.#transport, order, attemptTimeoutMs, log);
    this.timeoutMs = timeoutMs;
    const tags = { first: 100, min: 10, max: leaseMax, lastsMs: 10_000 };
    this.tagKind = { rules: tags, freshForMs: Infinity, aheadMs: timeoutMs, isLeased: false };
    const flakes = { first: 1, min: 1, max: Math.min(leaseMax, SNOWFLAKES_MAX), lastsMs: 500 };
    this.snowflakes = this.line(undefined, { rules: flakes, freshForMs: SNOWFLAKES_FRESH_FOR_MS, aheadMs: timeoutMs, isLeased: true });
    this.#home = {
      network: this.#network,
      clock: this.clock,
      timeoutMs,
      attemptTimeoutMs,
      log,
      lease: (pool, seconds, holder) => this.leaseWorker(pool, { seconds, holder }),
      ended: (lease) => void this.leases.delete(lease),
    };
    if (zone !== undefined) void this.#network.watchZones(endpoints.length, zone, this.stop);
  }

  /** The next id of a tag, if one is held: no promise, no wait. */
  tryNextId(tag: string): bigint | undefined {
    return this.lines.get(tag)?.take();
  }

  /** A snowflake, if one is held. */
  tryNextSnowflake(): bigint | undefined {
    return this.snowflakes.take();
  }

  /** The next id of a tag. */
  nextId(tag: string, options?: CallOptions): Promise<bigint> {
    if (options === undefined) {
      const id = this.tryNextId(tag);
      if (id !== undefined) return Promise.resolve(id);
    }
    return this.want(tag, 1, options).then(({ got, listed }) => (listed === undefined ? (got[0] as bigint) : toId(listed[0] as string)));
  }

  /** The next `count` ids of a tag, 1 to 10,000. */
  nextIds(tag: string, count: number, options?: CallOptions): Promise<bigint[]> {
    return this.want(tag, count, options).then(({ got, listed }) => listed?.map(toId) ?? got);
  }

  /** The next id of a tag as the cluster writes it. */
  nextText(tag: string, options?: CallOptions): Promise<string> {
    return this.want(tag, 1, options).then(({ got, listed }) => listed?.[0] ?? String(got[0]));
  }

  /** A snowflake, whose time is at most a second old. */
  async nextSnowflake(options: CallOptions = {}): Promise<bigint> {
    request.checkOptions(options, CALL_OPTIONS);
    const { got } = await this.wantOf(this.snowflakes, 1, options);
    return got[0] as bigint;
  }

  /** The next number of a key of a sequence. Each call is a request. */
  async nextNumber(tag: string, key: string, options: CallOptions = {}): Promise<bigint> {
    request.checkTag(tag);
    request.checkKey(key);
    request.checkOptions(options, CALL_OPTIONS);
    const { ranges, listed } = await this.ask(request.sequence(tag, key), options);
    return listed === undefined ? (ranges?.[0]?.start as bigint) : toId(listed[0] as string);
  }

  /** The number of a key in a register: the same for ever. */
  async register(tag: string, key: string, options: CallOptions = {}): Promise<Registered> {
    request.checkTag(tag);
    request.checkKey(key);
    request.checkOptions(options, CALL_OPTIONS);
    return this.ask(request.register(tag, key), options);
  }

  /** Leases a worker id of a pool, and renews it until it is closed. */
  async leaseWorker(pool: string, options: LeaseWorkerOptions = {}): Promise<WorkerLease> {
    request.checkOptions(options, LEASE_WORKER_OPTIONS);
    const { seconds = 60, holder = `${hostname()}-${process.pid}` } = options;
    request.checkTag(pool, "pool");
    request.checkSeconds(seconds);
    request.checkHolder(holder);
    const terms = await this.ask(request.workerLease(pool, seconds, holder), options);
    const lease = new WorkerLease(this.#home, pool, terms, seconds, holder, this.clock.now());
    if (this.stop.isStopped) {
      await lease.close();
      throw new Closed();
    }
    this.leases.add(lease);
    return lease;
  }

  stats(): ClientStats {
    const lines = [this.snowflakes, ...this.lines.values()];
    const sum = (of: (line: Line) => number): number => lines.reduce((total, line) => total + of(line), 0);
    return {
      requests: this.#network.requests,
      failedRequests: this.#network.failedRequests,
      requestsUnderWay: this.#network.requestsUnderWay,
      leases: sum((line) => line.leasesLanded),
      leasedIds: sum((line) => line.leasedIds),
      handedOut: sum((line) => line.handedOut),
      held: sum((line) => line.held),
      waitingCalls: sum((line) => line.waiting) + this.looseCalls,
      waits: this.waits,
      tags: this.lines.size,
    };
  }

  /** Ends every call, and wastes what is held. Only worker leases are waited for, one attempt at most. */
  close(): Promise<void> {
    this.closing ??= this.end();
    return this.closing;
  }

  private async end(): Promise<void> {
    this.stop.stop();
    for (const line of [this.snowflakes, ...this.lines.values()]) line.close();
    if (this.leases.size > 0) await Promise.all([...this.leases].map((lease) => lease.close()));
    this.#transport.close();
  }

  private want(tag: string, count: number, options?: CallOptions): Promise<Given> {
    try {
      request.checkCount(count);
      if (options !== undefined) request.checkOptions(options, CALL_OPTIONS);
      const line = this.lines.get(tag) ?? this.newLine(tag);
      if (line !== undefined) return this.wantOf(line, count, options);
    } catch (error) {
      return Promise.reject(error as Error);
    }
    return this.ask(request.segment(tag, count, false), options).then(given);
  }

  private wantOf(line: Line, count: number, options?: CallOptions): Promise<Given> {
    const signal = options?.signal;
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    const held = line.takeMany(count);
    if (held !== undefined) return Promise.resolve({ got: held });
    this.waits += 1;
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        line.forget(call);
        reject(signal?.reason as Error);
      };
      const done = (): void => signal?.removeEventListener("abort", abort);
      const call: Waiting = {
        count,
        lacks: count,
        got: [],
        deadline: this.clock.now() + this.timeoutMs,
        signal,
        give(got, listed) {
          done();
          resolve(listed === undefined ? { got } : { got, listed });
        },
        fail(error) {
          done();
          reject(error);
        },
      };
      signal?.addEventListener("abort", abort, { once: true });
      line.want(call);
    });
  }

  private newLine(tag: string): Line | undefined {
    request.checkTag(tag);
    if (this.stop.isStopped) throw new Closed();
    if (this.lines.size >= LINES_MAX) return undefined;
    const line = this.line(tag, this.tagKind);
    this.lines.set(tag, line);
    return line;
  }

  private line(tag: string | undefined, kind: Kind): Line {
    const line: Line = new Line(kind, {
      now: () => this.clock.now(),
      awake: (at, callback) => this.clock.timer(at, callback, "awake"),
      fly: ({ count, asRanges, deadline }) => {
        const landed = (outcome: Outcome<Ids>): void => line.landed(outcome);
        void this.#network.ask(request.segment(tag, count, asRanges), deadline, this.stop, line).then(landed);
      },
      flyAlone: (call) => {
        const asking = request.segment(tag, call.count, false);
        const { signal } = call as Waiting;
        const ended = (error?: unknown): void => line.ownCallEnded(error instanceof MintleafError ? error : undefined);
        this.flight(asking, call.deadline, { signal }, line).then(
          (ids) => {
            ended();
            const { got, listed } = given(ids);
            call.give(got, listed);
          },
          (error: unknown) => {
            ended(error);
            call.fail(error as MintleafError);
          },
        );
      },
    });
    return line;
  }

  /** The flight of a call without a line. */
  private async ask<T>(asking: request.Request<T>, options?: CallOptions): Promise<T> {
    if (this.looseCalls >= CALLS_MAX) throw new Overloaded();
    this.looseCalls += 1;
    this.waits += 1;
    try {
      return await this.flight(asking, this.clock.now() + this.timeoutMs, options);
    } finally {
      this.looseCalls -= 1;
    }
  }

  /** The flight of one call. Its answer goes to this call alone. */
  private async flight<T>(asking: request.Request<T>, deadline: number, options?: CallOptions, line?: Line): Promise<T> {
    const signal = options?.signal;
    if (signal?.aborted === true) throw signal.reason;
    if (this.stop.isStopped) throw new Closed();
    const stop = new Stop();
    const forget = this.stop.onStop(() => stop.stop());
    let isAborted = false;
    const abort = (): void => {
      isAborted = true;
      stop.stop();
    };
    signal?.addEventListener("abort", abort, { once: true });
    const awake = this.clock.timer(deadline, () => {}, "awake");
    try {
      const outcome = await this.#network.ask(asking, deadline, stop, line);
      if (outcome.kind === "answered") return outcome.value;
      if (outcome.kind !== "stopped") throw outcome.error;
      throw isAborted ? signal?.reason : new Closed();
    } finally {
      awake.clear();
      forget();
      signal?.removeEventListener("abort", abort);
    }
  }
}

interface Waiting extends Call {
  readonly signal: AbortSignal | undefined;
}

/** The ids of a call, or the ids as the node wrote them. */
interface Given {
  readonly got: bigint[];
  readonly listed?: string[];
}

function given({ ranges, listed }: Ids): Given {
  if (listed !== undefined) return { got: [], listed };
  const got: bigint[] = [];
  for (const { start, count } of ranges ?? []) for (let at = 0; at < count; at++) got.push(start + BigInt(at));
  return { got };
}

function toId(text: string): bigint {
  const id = numberOf(text);
  if (id === undefined) throw new NotANumber(text);
  return id;
}
