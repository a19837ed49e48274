// The errors of a call. Each has a stable `code`, which also tells them apart across two copies of this package.

/** Why a call returned no id. */
export class MintleafError extends Error {
  /** A stable word for the kind of error. For a refusal it is the node's own code. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
    this.name = new.target.name;
  }

  /** Whether the same call may succeed later although no operator changes anything. */
  get isRetryable(): boolean {
    return false;
  }
}

/** A node refused, as every node would: the tag is unknown or frozen, or the token does not allow the call. */
export class Refused extends MintleafError {
  /** The HTTP status. */
  readonly status: number;
  /** A sentence for people. May be empty. */
  readonly detail: string;
  /** @internal How many ids one request may have, in a refusal of a request for more. */
  readonly countMax: number | undefined;

  constructor(status: number, code: string, detail: string, countMax?: number) {
    super(code, `the node refused (${status} ${code})${detail && ": "}${detail}`);
    this.status = status;
    this.detail = detail;
    this.countMax = countMax;
  }

  override get isRetryable(): boolean {
    return this.status === 429;
  }
}

/** No node answered in time. The message names the last endpoint, and says what it met. */
export class Unavailable extends MintleafError {
  constructor(met: string) {
    super("unavailable", `no node answered in time: ${met}`);
  }

  override get isRetryable(): boolean {
    return true;
  }
}

/** Too many calls wait already. */
export class Overloaded extends MintleafError {
  constructor() {
    super("overloaded", "10,000 calls wait already; call again later");
  }

  override get isRetryable(): boolean {
    return true;
  }
}

/** The client, or the lease, is closed. */
export class Closed extends MintleafError {
  constructor(what = "client") {
    super("closed", `the ${what} is closed`);
  }
}

/** An argument that every node would refuse. The message names it and its bounds. */
export class InvalidArgument extends MintleafError {
  constructor(fault: string) {
    super("invalid_argument", fault);
  }
}

/** The ids of the tag are texts, which `nextText` takes. The id is wasted. */
export class NotANumber extends MintleafError {
  constructor(id: string) {
    super("not_a_number", `${JSON.stringify(id)} is not a number: ids of this tag are texts, taken by nextText`);
  }
}
