// Requests over HTTP/1.1, with or without TLS, on connections that are kept.
//
// A request is sent once, with one exception: when a kept connection ends before the head of an answer, the request is
// sent once more on a new connection. That request gets other ids, and an answer to the first is lost with its connection.
//
// No connection keeps the process alive: the timers of waiting calls do.

import { readFileSync, statSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";

import type { Answer } from "./answer.js";
import { type Clock, type Stop, type Timer } from "./clock.js";
import { InvalidArgument } from "./errors.js";

/** The longest answer. */
const ANSWER_BYTES_MAX = 1 << 20;
/** A connection that was idle longer is not used again. Nodes close idle connections after 75 s. */
const IDLE_MAX_MS = 60_000;
/** The largest number of kept connections to one endpoint. */
const KEPT_MAX = 64;

/** What is sent, without what all requests have in common. */
export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly body?: string;
}

/** How nodes are asked. */
export interface Transport {
  /** The address of an endpoint, for people. */
  address(endpoint: number): string;
  /** Sends a request once. Rejects with what went wrong, also when `stop` stops. */
  send(endpoint: number, request: Sent, stop: Stop): Promise<Answer>;
  /** Closes all connections. */
  close(): void;
}

/** A certificate, a key, or several. */
export type Pem = string | Uint8Array;

export interface HttpOptions {
  readonly endpoints: readonly string[];
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly ca?: Pem | ReadonlyArray<Pem> | undefined;
  readonly caFile?: string | undefined;
  readonly cert?: Pem | undefined;
  readonly key?: Pem | undefined;
  readonly connectTimeoutMs: number;
  readonly userAgent: string;
  readonly idleMaxMs?: number;
  /** Takes what went wrong with the token's file. */
  readonly warn: (message: string) => void;
}

interface Address {
  readonly text: string;
  readonly isHttps: boolean;
  readonly hostname: string;
  readonly port: number;
  readonly agent: http.Agent;
}

export class HttpTransport implements Transport {
  private readonly addresses: readonly Address[];
  private readonly token: () => string | undefined;
  private isClosed = false;

  constructor(
    private readonly options: HttpOptions,
    private readonly clock: Clock,
  ) {
    if (options.token !== undefined && options.tokenFile !== undefined) {
      throw new InvalidArgument("token and tokenFile exclude each other");
    }
    const { token, tokenFile } = options;
    if (token !== undefined) checkToken(token, "token");
    this.token = tokenFile === undefined ? () => token : tokenOf(tokenFile, options.warn);
    const ca = options.caFile === undefined ? options.ca : readOr("caFile", () => readFileSync(options.caFile as string));
    const kept = { keepAlive: true, maxFreeSockets: KEPT_MAX, timeout: options.idleMaxMs ?? IDLE_MAX_MS };
    this.addresses = options.endpoints.map((text) => {
      const address = parse(text);
      const { cert, key } = options;
      const agent = address.isHttps ? new https.Agent({ ...kept, ca, cert, key }) : new http.Agent(kept);
      return { ...address, agent };
    });
  }

  address(endpoint: number): string {
    return (this.addresses[endpoint] as Address).text;
  }

  send(endpoint: number, request: Sent, stop: Stop): Promise<Answer> {
    return this.sendOnce(endpoint, request, stop).catch((fault: Fault) => {
      if (!fault.wasKept || stop.isStopped || this.isClosed) throw fault;
      this.closeKept(endpoint);
      return this.sendOnce(endpoint, request, stop);
    });
  }

  close(): void {
    this.isClosed = true;
    for (const { agent } of this.addresses) agent.destroy();
  }

  private sendOnce(endpoint: number, request: Sent, stop: Stop): Promise<Answer> {
    const { isHttps, hostname, port, agent } = this.addresses[endpoint] as Address;
    return new Promise((resolve, reject) => {
      const headers = this.headers(request.body);
      const options = { agent, hostname, port, method: request.method, path: request.path, headers };
      const asking = isHttps ? https.request(options) : http.request(options);
      let connecting: Timer | undefined;
      const end = (): void => {
        connecting?.clear();
        forget();
      };
      const fail = (why: string, hasHead = false): void => {
        end();
        const fault: Fault = new Error(why);
        fault.wasKept = asking.reusedSocket && !hasHead;
        reject(fault);
        asking.destroy();
      };
      asking.on("socket", (socket) => {
        socket.unref();
        if (!socket.connecting) return;
        const { connectTimeoutMs } = this.options;
        const late = (): void => fail(`no connection within ${connectTimeoutMs} ms`);
        connecting = this.clock.timer(this.clock.now() + connectTimeoutMs, late);
        socket.once(isHttps ? "secureConnect" : "connect", () => connecting?.clear());
      });
      asking.on("error", (error) => fail(error.message));
      asking.on("close", () => fail("the connection ended"));
      asking.on("response", (answer) => {
        const done = (body: string): void => {
          end();
          resolve({ status: answer.statusCode ?? 0, retryAfter: headerOf(answer, "retry-after"), body });
        };
        whole(answer, done, (why) => fail(why, true));
      });
      const forget = stop.onStop(() => fail("given up"));
      asking.end(request.body);
    });
  }

  private headers(body: string | undefined): Record<string, string | number> {
    const headers: Record<string, string | number> = {
      Accept: "application/json",
      "Cache-Control": "no-store",
      "User-Agent": this.options.userAgent,
    };
    const token = this.token();
    if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      headers["Content-Length"] = Buffer.byteLength(body);
    }
    return headers;
  }

  private closeKept(endpoint: number): void {
    const { freeSockets } = (this.addresses[endpoint] as Address).agent;
    for (const sockets of Object.values(freeSockets)) for (const socket of sockets ?? []) socket.destroy();
  }
}

/** Why a request has no answer. */
interface Fault extends Error {
  /** Whether it was sent on a kept connection, which ended before the head of an answer. */
  wasKept?: boolean;
}

/** Reads a body to its end. A body that breaks off, or is too long, fails. */
function whole(answer: http.IncomingMessage, done: (body: string) => void, fail: (why: string) => void): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  answer.on("data", (chunk) => {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) fail(`the answer is longer than ${ANSWER_BYTES_MAX} bytes`);
    else chunks.push(chunk);
  });
  answer.on("error", (error) => fail(`the answer broke off: ${error.message}`));
  answer.on("end", () => (answer.complete ? done(Buffer.concat(chunks).toString("utf8")) : fail("the answer broke off")));
}

function headerOf(answer: http.IncomingMessage, name: string): string | undefined {
  const value = answer.headers[name];
  return typeof value === "string" ? value : value?.[0];
}

/** The address of a node: `http://HOST:PORT` or `https://HOST:PORT`. */
function parse(text: string): Omit<Address, "agent"> {
  const fault = new InvalidArgument(`endpoint ${JSON.stringify(text)} must be http://HOST:PORT or https://HOST:PORT`);
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw fault;
  }
  const isHttps = url.protocol === "https:";
  const isBare = (url.pathname === "/" || url.pathname === "") && !url.search && !url.hash && !url.username && !url.password;
  if ((!isHttps && url.protocol !== "http:") || !isBare || url.hostname === "") throw fault;
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  return { text: url.host, isHttps, hostname, port: Number(url.port) || (isHttps ? 443 : 80) };
}

function checkToken(token: string, name: string): void {
  if (!/^[\x21-\x7e]+$/.test(token)) throw new InvalidArgument(`${name} must be visible ASCII characters`);
}

function readOr<T>(name: string, reading: () => T): T {
  try {
    return reading();
  } catch (error) {
    throw new InvalidArgument(`${name} cannot be read: ${(error as Error).message}`);
  }
}

/** Reads the token of a file, again whenever the file has changed. While it cannot be read, the last one holds. */
function tokenOf(path: string, warn: (message: string) => void): () => string {
  const seen = (): string => {
    const { mtimeMs, size, ino } = statSync(path);
    return `${mtimeMs} ${size} ${ino}`;
  };
  const readIt = (): string => {
    const token = readFileSync(path, "utf8").trim();
    checkToken(token, "the token of tokenFile");
    return token;
  };
  let [version, token] = readOr("tokenFile", () => [seen(), readIt()] as const);
  return () => {
    try {
      const now = seen();
      if (now !== version) {
        token = readIt();
        version = now;
      }
    } catch (error) {
      warn(`the token's file cannot be read, so the last token holds: ${(error as Error).message}`);
    }
    return token;
  };
}
