// Chooses the endpoint to ask next. An endpoint that has failed rests for a while.

const REST_MIN_MS = 50;
const REST_MAX_MS = 5_000;

interface Endpoint {
  readonly number: number;
  isInZone: boolean;
  /** Failures since the last answer. */
  failures: number;
  restsUntil: number;
}

/** The endpoints of a client, numbered by their place in its options, in this client's order of preference. */
export class Endpoints {
  private readonly order: Endpoint[];

  /** `random` returns numbers from 0 to below 1. */
  constructor(
    count: number,
    private readonly random: () => number,
  ) {
    this.order = Array.from({ length: count }, (_, number) => ({ number, isInZone: false, failures: 0, restsUntil: 0 }));
    for (let place = count - 1; place > 0; place--) {
      const other = Math.floor(random() * (place + 1));
      const moved = this.order[place] as Endpoint;
      this.order[place] = this.order[other] as Endpoint;
      this.order[other] = moved;
    }
  }

  /** The endpoint to ask, and the end of its rest. */
  pick(now: number): { endpoint: number; restsUntil: number } {
    const [first, ...others] = this.order as [Endpoint, ...Endpoint[]];
    const soonest = others.reduce((best, other) => (other.restsUntil < best.restsUntil ? other : best), first);
    const picked = this.order.find((endpoint) => endpoint.restsUntil <= now) ?? soonest;
    return { endpoint: picked.number, restsUntil: picked.restsUntil };
  }

  /** An endpoint failed. `askedForMs` is the rest that its answer asked for, if any. */
  failed(number: number, now: number, askedForMs = 0): void {
    const endpoint = this.of(number);
    const rest = Math.min(REST_MIN_MS * 2 ** Math.min(endpoint.failures, 16), REST_MAX_MS) * (0.5 + this.random() / 2);
    endpoint.failures += 1;
    endpoint.restsUntil = Math.max(endpoint.restsUntil, now + Math.max(rest, Math.min(askedForMs, REST_MAX_MS)));
  }

  answered(number: number): void {
    this.of(number).failures = 0;
  }

  /** Whether every endpoint has failed since its last answer. */
  get haveAllFailed(): boolean {
    return this.order.every((endpoint) => endpoint.failures > 0);
  }

  /** Endpoints in the client's zone are asked before all others. */
  setInZone(number: number, isInZone: boolean): void {
    this.of(number).isInZone = isInZone;
    this.order.sort((one, other) => Number(other.isInZone) - Number(one.isInZone));
  }

  /** `period`, varied by up to a tenth either way. */
  about(period: number): number {
    return period * (0.9 + this.random() / 5);
  }

  private of(number: number): Endpoint {
    return this.order.find((endpoint) => endpoint.number === number) as Endpoint;
  }
}
