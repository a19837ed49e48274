// The attempts of a flight: which endpoint is asked, when, and what its answer means for the next attempt.

import { type Answer, type Meaning, read, readZone } from "./answer.js";
import { type Clock, sleepUntil, Stop } from "./clock.js";
import type { Endpoints } from "./endpoints.js";
import { type MintleafError, type Refused, Unavailable } from "./errors.js";
import type { Request } from "./request.js";
import type { Transport } from "./transport.js";

/** The largest number of requests that a client has under way at once. */
const REQUESTS_MAX = 64;
/** How often endpoints are asked for their zones, varied by up to a tenth either way. */
const ZONES_EVERY_MS = 60_000;

/** How a flight ends. */
export type Outcome<T> =
  | { readonly kind: "answered"; readonly value: T }
  | { readonly kind: "refused"; readonly error: Refused }
  /** The deadline passed. The error is what the last attempt met. */
  | { readonly kind: "timeUp"; readonly error: MintleafError }
  | { readonly kind: "stopped" };

/** A line, as its flights see it. */
export interface Informed {
  /** Notes what an attempt met. */
  met(error: MintleafError): void;
  /** Notes that the tag's rate limit is used up at an endpoint until this time. */
  rateLimited(endpoint: number, until: number): void;
  /** The endpoint where the rate limit is used up, and until when. */
  limited(now: number): { endpoint: number; at: number } | undefined;
}

export type Log = (level: "debug" | "info" | "warn", message: string) => void;

/** The endpoints, how to reach them, and how well they have worked. */
export class Network {
  requests = 0;
  failedRequests = 0;
  private underWay = 0;
  private readonly queue = new Set<() => void>();
  private isAway = false;

  constructor(
    readonly clock: Clock,
    private readonly transport: Transport,
    private readonly endpoints: Endpoints,
    private readonly attemptTimeoutMs: number,
    private readonly log: Log,
  ) {}

  get requestsUnderWay(): number {
    return this.underWay;
  }

  /** Asks one endpoint after another until one answers, the deadline passes, or it is stopped. An attempt that the deadline
   * cuts short has met nothing: the error is that of the last one before it. */
  async ask<T>(request: Request<T>, deadline: number, stop: Stop, line?: Informed): Promise<Outcome<T>> {
    let last: MintleafError = new Unavailable("no answer yet");
    let pinned = line?.limited(this.clock.now());
    for (let isFirst = true; ; isFirst = false) {
      const { endpoint, at } = pinned ?? this.pick(isFirst);
      pinned = undefined;
      await sleepUntil(this.clock, Math.min(at, deadline), stop);
      if (stop.isStopped) return { kind: "stopped" };
      if (this.clock.now() >= deadline) return { kind: "timeUp", error: last };
      const meaning = await this.attempt(endpoint, request, deadline, stop);
      if (stop.isStopped) return { kind: "stopped" };
      if (meaning === undefined) return { kind: "timeUp", error: last };
      if (meaning.kind === "answered" || meaning.kind === "refused") return meaning;
      if (meaning.kind === "rateLimited") {
        const until = this.clock.now() + meaning.waitMs;
        line?.rateLimited(endpoint, until);
        pinned = { endpoint, at: until };
        last = meaning.error;
      } else {
        last = new Unavailable(`${this.transport.address(endpoint)}: ${meaning.why}`);
      }
      line?.met(last);
    }
  }

  private pick(isFirst: boolean): { endpoint: number; at: number } {
    const now = this.clock.now();
    const { endpoint, restsUntil } = this.endpoints.pick(now);
    return { endpoint, at: isFirst ? now : restsUntil };
  }

  /** One attempt. Its outcome is noted for the endpoint. Returns undefined if it is stopped or the deadline cuts it short. */
  private async attempt<T>(
    endpoint: number,
    request: Request<T>,
    deadline: number,
    stop: Stop,
  ): Promise<Meaning<T> | undefined> {
    let end = Infinity;
    let answer: Answer | string | undefined;
    try {
      answer = await this.within(deadline, stop, (ending) => {
        end = this.clock.now() + this.attemptTimeoutMs;
        return this.transport.send(endpoint, request, ending);
      });
    } catch (error) {
      answer = (error as Error).message;
    }
    // The endpoint is not to blame when the call's own deadline passes.
    if (stop.isStopped || (answer === undefined && deadline < end)) return undefined;
    const failed = (why: string): Meaning<T> => ({ kind: "failed", why });
    const meaning =
      answer === undefined
        ? failed(`no answer within ${this.attemptTimeoutMs} ms`)
        : typeof answer === "string"
          ? failed(answer)
          : read(request, answer);
    this.note(endpoint, meaning);
    return meaning;
  }

  private note<T>(endpoint: number, meaning: Meaning<T>): void {
    if (meaning.kind !== "failed") {
      this.endpoints.answered(endpoint);
      if (this.isAway) this.log("info", "a node answers again");
      this.isAway = false;
      return;
    }
    this.failedRequests += 1;
    this.endpoints.failed(endpoint, this.clock.now(), meaning.restMs);
    const met = `${this.transport.address(endpoint)}: ${meaning.why}`;
    this.log("debug", `an attempt failed: ${met}`);
    if (!this.isAway && this.endpoints.haveAllFailed) this.log("warn", `no node answers: ${met}`);
    this.isAway = this.endpoints.haveAllFailed;
  }

  /** Sends when fewer than the most requests are under way. Returns undefined if the attempt's time or `deadline` is over
   * first. */
  private async within(deadline: number, stop: Stop, send: (ending: Stop) => Promise<Answer>): Promise<Answer | undefined> {
    const ending = new Stop();
    const forget = stop.onStop(() => ending.stop());
    let timer = this.clock.timer(deadline, () => ending.stop());
    try {
      if (!(await this.turn(ending))) return undefined;
      try {
        if (ending.isStopped) return undefined;
        this.requests += 1;
        timer.clear();
        timer = this.clock.timer(Math.min(this.clock.now() + this.attemptTimeoutMs, deadline), () => ending.stop());
        return await send(ending);
      } finally {
        this.underWay -= 1;
        this.nextTurn();
      }
    } catch (error) {
      if (ending.isStopped) return undefined;
      throw error;
    } finally {
      timer.clear();
      forget();
    }
  }

  /** Waits for a turn and takes it, unless it ends first. */
  private async turn(ending: Stop): Promise<boolean> {
    while (this.underWay >= REQUESTS_MAX && !ending.isStopped) {
      await new Promise<void>((resolve) => {
        const forget = ending.onStop(() => {
          this.queue.delete(come);
          resolve();
        });
        const come = (): void => {
          forget();
          resolve();
        };
        this.queue.add(come);
      });
    }
    if (ending.isStopped) {
      // A turn that came at the end is the next one's.
      if (this.underWay < REQUESTS_MAX) this.nextTurn();
      return false;
    }
    this.underWay += 1;
    return true;
  }

  private nextTurn(): void {
    for (const resolve of this.queue) {
      this.queue.delete(resolve);
      resolve();
      return;
    }
  }

  /** Asks every endpoint for its zone, again and again. A zone stays as it was while no answer comes. */
  async watchZones(count: number, own: string, stop: Stop): Promise<void> {
    while (!stop.isStopped) {
      await Promise.all(Array.from({ length: count }, (_, endpoint) => this.askForZone(endpoint, own, stop)));
      await sleepUntil(this.clock, this.clock.now() + this.endpoints.about(ZONES_EVERY_MS), stop);
    }
  }

  private async askForZone(endpoint: number, own: string, stop: Stop): Promise<void> {
    const request = { method: "GET", path: "/v1/cluster" };
    const end = this.clock.now() + this.attemptTimeoutMs;
    try {
      const answer = await this.within(end, stop, (ending) => this.transport.send(endpoint, request, ending));
      if (answer?.status === 200) this.endpoints.setInZone(endpoint, readZone(answer.body) === own);
    } catch (error) {
      this.log("debug", `${this.transport.address(endpoint)} did not say its zone: ${(error as Error).message}`);
    }
  }
}
