// Requests to nodes: arguments within their bounds, the path, and how an answer is read.

import { InvalidArgument } from "./errors.js";
import { type Ids, type WorkerTerms, type Registered, readIds, readRegistered, readRenewal, readTerms } from "./answer.js";

const TAG_CHARS_MAX = 128;
const KEY_BYTES_MAX = 256;
/** The most ids of one call, and of one answer that lists them. */
const COUNT_MAX = 10_000;
const SECONDS_MIN = 5;
const SECONDS_MAX = 3_600;
const HOLDER_CHARS_MAX = 128;

/** One request, whose answer holds a `T`. */
export interface Request<T> {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly body?: string;
  /** The statuses of an answer. */
  readonly statuses: readonly number[];
  /** The most ids that a lease may have instead, by the answer that refuses it, is below this; 0: no lease. */
  readonly leaseOf: number;
  /** Reads the body of an answer, or throws what is wrong with it. */
  readonly read: (body: string) => T;
}

/** `count` ids of a tag, or of the snowflakes where `tag` is undefined, as a list or as ranges. */
export function segment(tag: string | undefined, count: number, asRanges: boolean): Request<Ids> {
  const path = tag === undefined ? "/v1/snowflake" : `/v1/segment/${escaped(tag)}`;
  return {
    method: "GET",
    path: `${path}?count=${count}${asRanges ? "&format=ranges" : ""}`,
    statuses: [200],
    leaseOf: asRanges ? count : 0,
    read: (body) => readIds(body, count, asRanges),
  };
}

/** The next number of a key. */
export function sequence(tag: string, key: string): Request<Ids> {
  const path = `/v1/sequence/${escaped(tag)}/${escaped(key)}?count=1`;
  return { method: "GET", path, statuses: [200], leaseOf: 0, read: (body) => readIds(body, 1, false) };
}

/** The number of a key in a register. */
export function register(tag: string, key: string): Request<Registered> {
  const path = `/v1/register/${escaped(tag)}/${escaped(key)}`;
  return { method: "POST", path, statuses: [200, 201], leaseOf: 0, read: readRegistered };
}

/** A lease of a worker id. */
export function workerLease(pool: string, seconds: number, holder: string): Request<WorkerTerms> {
  const body = JSON.stringify({ seconds, holder });
  const path = `/v1/pools/${escaped(pool)}/leases`;
  return { method: "POST", path, body, statuses: [200, 201], leaseOf: 0, read: readTerms };
}

/** A longer term of such a lease: the new `until_ms`. */
export function renewal(pool: string, lease: string, seconds: number): Request<number> {
  const path = `/v1/pools/${escaped(pool)}/leases/${escaped(lease)}`;
  return { method: "POST", path, body: JSON.stringify({ seconds }), statuses: [200], leaseOf: 0, read: readRenewal };
}

/** The end of such a lease, whose milliseconds after `lastMs` go back. */
export function giveBack(pool: string, lease: string, lastMs: number): Request<void> {
  const path = `/v1/pools/${escaped(pool)}/leases/${escaped(lease)}`;
  const body = JSON.stringify({ last_ms: String(lastMs) });
  return { method: "DELETE", path, body, statuses: [200, 204], leaseOf: 0, read: () => {} };
}

/** Every byte but `A-Z a-z 0-9 - _ ~` is escaped, the dot too, so that no proxy takes `..` for a way up. */
function escaped(text: string): string {
  return encodeURIComponent(text).replace(/[.!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Throws for an option that does not exist, because ignoring a misspelt one would leave its default in force. */
export function checkOptions(options: object, known: object): void {
  const fault = (what: string): Error => new TypeError(`${what} (known: ${Object.keys(known).join(", ")})`);
  if (typeof options !== "object" || options === null || Array.isArray(options)) throw fault("options must be an object");
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(known, name)) throw fault(`unknown option ${JSON.stringify(name)}`);
  }
}

/** Whether a node would take this tag, or this name of a pool. */
export function checkTag(tag: string, name = "tag"): void {
  checkText(tag, name);
  const chars = tag.length <= 2 * TAG_CHARS_MAX ? [...tag].length : tag.length;
  if (chars === 0 || chars > TAG_CHARS_MAX) {
    throw new InvalidArgument(`${name} must have 1 to ${TAG_CHARS_MAX} characters, not ${chars}`);
  }
  if (/\p{Cc}/u.test(tag)) throw new InvalidArgument(`${name} must not hold control characters`);
}

export function checkKey(key: string): void {
  checkText(key, "key");
  const bytes = Buffer.byteLength(key);
  if (bytes === 0 || bytes > KEY_BYTES_MAX) {
    throw new InvalidArgument(`key must have 1 to ${KEY_BYTES_MAX} bytes, not ${bytes}`);
  }
}

export function checkCount(count: number): void {
  checkNumber("count", count, 1, COUNT_MAX);
}

export function checkSeconds(seconds: number): void {
  checkNumber("seconds", seconds, SECONDS_MIN, SECONDS_MAX);
}

export function checkHolder(holder: string): void {
  checkText(holder, "holder");
  if ([...holder].length > HOLDER_CHARS_MAX) {
    throw new InvalidArgument(`holder must have up to ${HOLDER_CHARS_MAX} characters`);
  }
}

export function checkNumber(name: string, value: number, least: number, most: number): void {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new InvalidArgument(`${name} must be an integer from ${least} to ${most}, not ${String(value)}`);
  }
}

function checkText(text: string, name: string): void {
  if (typeof text !== "string") throw new InvalidArgument(`${name} must be a string`);
  if (/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(text)) {
    throw new InvalidArgument(`${name} must not hold half of a surrogate pair`);
  }
}
