// The parts of Node.js that the client uses. With these, TypeScript is all that the build needs.

interface AbortSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

interface NodeTimer {
  unref(): void;
}

declare function setTimeout(callback: () => void, ms: number): NodeTimer;
declare function clearTimeout(timer: NodeTimer): void;
declare const performance: { now(): number };
declare const process: { readonly pid: number };
declare class Buffer extends Uint8Array {
  static concat(chunks: readonly Uint8Array[]): Buffer;
  static byteLength(text: string): number;
  toString(encoding?: "utf8"): string;
}
declare class URL {
  constructor(text: string);
  readonly protocol: string;
  readonly hostname: string;
  readonly port: string;
  readonly username: string;
  readonly password: string;
  readonly pathname: string;
  readonly search: string;
  readonly hash: string;
  readonly host: string;
}

declare module "node:fs" {
  export function readFileSync(path: string): Buffer;
  export function readFileSync(path: string, encoding: "utf8"): string;
  export function statSync(path: string): { readonly mtimeMs: number; readonly size: number; readonly ino: number };
}

declare module "node:os" {
  export function hostname(): string;
}

declare module "node:http" {
  export interface Socket {
    readonly connecting: boolean;
    unref(): void;
    destroy(): void;
    once(event: "connect" | "secureConnect", listener: () => void): void;
  }
  export interface AgentOptions {
    keepAlive?: boolean;
    maxFreeSockets?: number;
    timeout?: number;
    ca?: string | Uint8Array | ReadonlyArray<string | Uint8Array> | undefined;
    cert?: string | Uint8Array | undefined;
    key?: string | Uint8Array | undefined;
  }
  export class Agent {
    constructor(options: AgentOptions);
    readonly freeSockets: { readonly [name: string]: readonly Socket[] | undefined };
    destroy(): void;
  }
  export interface IncomingMessage {
    readonly statusCode?: number;
    readonly complete: boolean;
    readonly headers: { readonly [name: string]: string | string[] | undefined };
    on(event: "data", listener: (chunk: Buffer) => void): void;
    on(event: "end" | "aborted" | "close", listener: () => void): void;
    on(event: "error", listener: (error: Error) => void): void;
  }
  export interface ClientRequest {
    readonly reusedSocket: boolean;
    on(event: "socket", listener: (socket: Socket) => void): void;
    on(event: "response", listener: (answer: IncomingMessage) => void): void;
    on(event: "error", listener: (error: Error) => void): void;
    on(event: "close", listener: () => void): void;
    end(body?: string): void;
    destroy(): void;
  }
  export interface RequestOptions {
    agent: Agent;
    hostname: string;
    port: number;
    method: string;
    path: string;
    headers: Record<string, string | number>;
  }
  export function request(options: RequestOptions): ClientRequest;
}

declare module "node:https" {
  import type { AgentOptions, ClientRequest, RequestOptions } from "node:http";
  import { Agent as PlainAgent } from "node:http";
  export class Agent extends PlainAgent {
    constructor(options: AgentOptions);
  }
  export function request(options: RequestOptions): ClientRequest;
}
