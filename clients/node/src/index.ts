export { Client } from "./client.js";
export type { CallOptions, ClientOptions, ClientStats, LeaseWorkerOptions } from "./client.js";
export { MintleafError, Refused, Unavailable, Overloaded, Closed, InvalidArgument, NotANumber } from "./errors.js";
export { WorkerLease, WorkerSnowflakes } from "./worker.js";
export type { GeneratorOptions } from "./worker.js";
export type { Registered } from "./answer.js";
