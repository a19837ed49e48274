// What an answer means. Ids come from a complete and well-formed answer, or not at all.

import { Refused } from "./errors.js";
import type { Request } from "./request.js";

/** The first number past all ids. */
const ID_END = 1n << 63n;
/** The longest `Retry-After` that the client obeys: no call waits longer. */
const RETRY_AFTER_MAX_S = 3_600;
const RATE_LIMIT_WAIT_S = 1;
const WORKERS_MAX = 65_536;
/** The most characters of an answer that an error shows. */
const SAID_CHARS_MAX = 200;

/** An answer that has arrived completely. */
export interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: string;
}

/** Ids that follow each other. */
export interface Range {
  start: bigint;
  count: number;
}

/** Ids that may be kept (`ranges`), as the node listed them (`listed`), or ranges that must not be kept (neither). */
export interface Ids {
  readonly ranges?: Range[];
  readonly listed?: string[];
}

/** The number of a key in a register. */
export interface Registered {
  readonly id: bigint;
  /** The number as the cluster writes it; the decimal number where the register has no format. */
  readonly text: string;
  /** The period of the number, in a register with periods. */
  readonly period?: string;
  /** Whether this call gave the key its number. */
  readonly new: boolean;
}

/** What a node grants with a lease of a worker id. */
export interface WorkerTerms {
  readonly workerId: number;
  readonly lease: string;
  readonly fromMs: number;
  readonly untilMs: number;
}

/** What an answer means for the request that it answers. */
export type Meaning<T> =
  | { readonly kind: "answered"; readonly value: T }
  /** The endpoint failed; another may do better. `restMs` is the wait that the endpoint asked for. */
  | { readonly kind: "failed"; readonly why: string; readonly restMs?: number | undefined }
  /** The tag's rate limit is used up on this endpoint. */
  | { readonly kind: "rateLimited"; readonly error: Refused; readonly waitMs: number }
  /** Every node would repeat this. */
  | { readonly kind: "refused"; readonly error: Refused };

export function read<T>(request: Request<T>, answer: Answer): Meaning<T> {
  if (!request.statuses.includes(answer.status)) return readRefusal(request, answer);
  try {
    return { kind: "answered", value: request.read(answer.body) };
  } catch (fault) {
    return { kind: "failed", why: `the answer is malformed: ${(fault as Error).message}` };
  }
}

function readRefusal<T>(request: Request<T>, { status, retryAfter, body }: Answer): Meaning<T> {
  const document = problemOf(body);
  const problem = document ?? {};
  const code = typeof problem["code"] === "string" ? problem["code"] : "";
  const detail = typeof problem["detail"] === "string" ? problem["detail"] : "";
  const seconds = /^\s*\d{1,9}\s*$/.test(retryAfter ?? "") ? Math.min(Number(retryAfter), RETRY_AFTER_MAX_S) : undefined;
  if (status === 429 && code === "rate_limited") {
    return { kind: "rateLimited", error: new Refused(status, code, detail), waitMs: (seconds ?? RATE_LIMIT_WAIT_S) * 1_000 };
  }
  if (status >= 400 && status < 500 && status !== 408 && status !== 429 && code !== "") {
    const countMax = problem["count_max"];
    const isFewer = status === 422 && code === "count_over_rate_limit" && Number.isInteger(countMax);
    const fewer = isFewer && (countMax as number) >= 1 && (countMax as number) < request.leaseOf;
    return { kind: "refused", error: new Refused(status, code, detail, fewer ? (countMax as number) : undefined) };
  }
  const restMs = seconds === undefined ? undefined : seconds * 1_000;
  // Also a refusal without a code: every refusal of a node has one, so this comes from something else.
  const said = firstLine(document === undefined ? body : detail);
  return { kind: "failed", why: `answered ${status}${said && ": "}${said}`, restMs };
}

function problemOf(body: string): Record<string, unknown> | undefined {
  try {
    return objectOf(body);
  } catch {
    return undefined;
  }
}

/** The first line of a text from the network, short enough for an error, and without control characters. */
function firstLine(text: string): string {
  const [line = ""] = text.trimStart().split("\n", 1);
  // Twice as many code units hold as many characters.
  const chars = [...line.slice(0, 2 * SAID_CHARS_MAX)].slice(0, SAID_CHARS_MAX);
  return chars.join("").replace(/\p{Cc}/gu, " ").trim();
}

function objectOf(body: string): Record<string, unknown> {
  const value: unknown = JSON.parse(body);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("it is not an object");
  return value as Record<string, unknown>;
}

/** Reads ids as strings: JavaScript would round numbers. */
export function readIds(body: string, count: number, asRanges: boolean): Ids {
  const { ids, ranges, lease } = objectOf(body);
  if (lease !== undefined && lease !== null && typeof lease !== "boolean") throw new Error("lease is neither true nor false");
  const mayBeKept = lease !== false;
  if (asRanges) return mayBeKept ? { ranges: checked(readRanges(ranges, count), count) } : {};
  if (!isTexts(ids)) throw new Error("it has no ids");
  if (ids.length !== count) throw new Error("it has more or fewer ids than were asked for");
  if (mayBeKept) return { ranges: checked(joined(ids.map(idOf)), count) };
  if (new Set(ids).size < ids.length) throw new Error("it has an id twice");
  return { listed: ids };
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((text) => typeof text === "string");
}

function readRanges(ranges: unknown, count: number): Range[] {
  if (!Array.isArray(ranges)) throw new Error("it has no ranges");
  return ranges.map((range: { start?: unknown; end?: unknown } | null) => {
    const start = idOf(range?.start);
    const size = digits(range?.end) - start;
    if (size < 1n || start + size > ID_END) throw new Error("it has a range that is empty or out of bounds");
    if (size > BigInt(count)) throw new Error("it has more ids than were asked for");
    return { start, count: Number(size) };
  });
}

/** The ranges, if they rise, do not overlap, and hold exactly `count` ids. */
function checked(ranges: Range[], count: number): Range[] {
  let end = 0n;
  let total = 0;
  for (const range of ranges) {
    if (range.start < end) throw new Error("it has ids that do not rise");
    end = range.start + BigInt(range.count);
    total += range.count;
  }
  if (total !== count) throw new Error("it has more or fewer ids than were asked for");
  return ranges;
}

function joined(ids: readonly bigint[]): Range[] {
  const ranges: Range[] = [];
  for (const id of ids) {
    const last = ranges[ranges.length - 1];
    if (last !== undefined && last.start + BigInt(last.count) === id) last.count += 1;
    else ranges.push({ start: id, count: 1 });
  }
  return ranges;
}

function digits(text: unknown): bigint {
  if (typeof text !== "string" || !/^[0-9]{1,19}$/.test(text)) throw new Error("it has a number that is not 1 to 19 digits");
  return BigInt(text);
}

/** The id that the text holds, if it holds one. */
export function numberOf(text: string): bigint | undefined {
  try {
    return idOf(text);
  } catch {
    return undefined;
  }
}

function idOf(text: unknown): bigint {
  const id = digits(text);
  if (id < 1n || id >= ID_END) throw new Error("it has an id that is not a number from 1 to 2^63-1");
  return id;
}

export function readRegistered(body: string): Registered {
  const answer = objectOf(body);
  const id = idOf(answer["id"]);
  const { period } = answer;
  const text = answer["text"] ?? String(id);
  if (typeof text !== "string") throw new Error("its text is not a string");
  if (period !== undefined && period !== null && typeof period !== "string") throw new Error("its period is not a string");
  if (typeof answer["new"] !== "boolean") throw new Error("it does not say whether the number is new");
  const registered = { id, text, new: answer["new"] };
  return typeof period === "string" ? { ...registered, period } : registered;
}

export function readTerms(body: string): WorkerTerms {
  const answer = objectOf(body);
  const { worker_id: workerId, lease } = answer;
  const fromMs = millisOf(answer["from_ms"]);
  const untilMs = millisOf(answer["until_ms"]);
  if (!Number.isInteger(workerId) || (workerId as number) < 0 || (workerId as number) >= WORKERS_MAX) {
    throw new Error("it has no worker id");
  }
  if (typeof lease !== "string" || lease === "") throw new Error("it does not name the lease");
  if (untilMs <= fromMs) throw new Error("it grants no millisecond");
  return { workerId: workerId as number, lease, fromMs, untilMs };
}

export function readRenewal(body: string): number {
  return millisOf(objectOf(body)["until_ms"]);
}

/** Milliseconds are times, not ids: they fit a number. */
function millisOf(text: unknown): number {
  const ms = Number(digits(text));
  if (!Number.isSafeInteger(ms) || ms < 1) throw new Error("it has a time that is out of bounds");
  return ms;
}

/** The zone of the node that answered `GET /v1/cluster`; undefined if it has none. Throws if the answer is not about it. */
export function readZone(body: string): string | undefined {
  const { node_id: own, nodes } = objectOf(body);
  if (!Array.isArray(nodes)) throw new Error("it has no nodes");
  const node = nodes.find((one: { id?: unknown } | null) => one?.id === own) as { zone?: unknown } | undefined;
  if (own === undefined || !node) throw new Error("it does not know its own node");
  return typeof node.zone === "string" ? node.zone : undefined;
}
