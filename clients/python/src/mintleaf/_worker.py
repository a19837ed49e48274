"""Leases of worker ids, and the generators of snowflake ids on top of them."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Callable

from . import _wire as wire
from ._engine import DAY_S, Engine, Outcome, Task, default_holder
from ._line import Call
from .errors import Closed, InvalidArgument, MintleafError, Refused, Unavailable

SECONDS_MIN = 5
SECONDS_MAX = 3_600
#: Leaf's epoch in Unix milliseconds.
EPOCH_MS = 1_288_834_974_657
#: How often a generator that has run out of milliseconds looks for a renewal.
LOOK_EVERY_S = 0.01
#: How long a renewal waits after a refusal that may pass, and a generator after a pool has refused it another lease.
REFUSED_REST_S = 1.0


class Terms:
    """What a lease is asked for with."""

    def __init__(self, pool: object, seconds: object, holder: str | None) -> None:
        self.pool = wire.check_name("pool", pool)
        self.seconds = wire.check_whole("seconds", seconds, SECONDS_MIN, SECONDS_MAX)
        self.holder = default_holder() if holder is None else holder
        if not isinstance(self.holder, str) or len(self.holder) > wire.HOLDER_CHARS_MAX:
            raise InvalidArgument(f"holder must have up to {wire.HOLDER_CHARS_MAX} characters")

    def request(self) -> wire.Request:
        return wire.grant(self.pool, self.seconds, self.holder)


def want_lease(engine: Engine, terms: Terms, make: Callable[[Held], object], call: Call) -> None:
    """A call that waits for a lease. `make` makes its face, on the event loop."""

    async def ask() -> None:
        outcome = await engine.ask(terms.request(), call.deadline)
        if isinstance(outcome, wire.Granted):
            held = Held(engine, terms, outcome)
            held.keep()
            call.reply(make(held))
        else:
            call.reply(outcome if isinstance(outcome, MintleafError) else Unavailable("the answer is not a lease"))

    engine.start_call(call, ask)


class Held:
    """A worker id, and the milliseconds that this process alone may stamp with it: a lease without its face."""

    def __init__(self, engine: Engine, terms: Terms, granted: wire.Granted) -> None:
        self._engine = engine
        self._terms = terms
        self._granted = granted
        self._granted_at = engine.now()
        self._until_ms = granted.until_ms
        self._highest = granted.from_ms - 1
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_lost = False
        self._snowflakes: Snowflakes | None = None

    @property
    def pool(self) -> str:
        return self._terms.pool

    @property
    def worker_id(self) -> int:
        return self._granted.worker_id

    @property
    def from_ms(self) -> int:
        return self._granted.from_ms

    @property
    def until_ms(self) -> int:
        return self._until_ms

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def timeout(self) -> float:
        """How long a generator waits for a renewal."""
        return self._engine.settings.timeout

    def may_stamp(self, ms: int) -> bool:
        """Grants a millisecond to the program, unless there is a generator."""
        with self._lock:
            return self._snowflakes is None and self._grant(ms)

    def stamp(self, ms: int) -> bool:
        """Grants a millisecond to the generator."""
        with self._lock:
            return self._grant(ms)

    def _grant(self, ms: int) -> bool:
        may = not self._is_closed and self._granted.from_ms <= ms < self._until_ms
        if may and ms > self._highest:
            self._highest = ms
        return may

    def lease_now(self) -> int:
        """The present millisecond by the lease's own clock, which no change of the time of day moves."""
        return self._granted.from_ms + int((self._engine.now() - self._granted_at) * 1_000)

    def keep(self) -> None:
        """Begins to renew the lease. Runs on the event loop."""
        self._engine.leases.add(self)
        self._engine.start_task(self._renew)

    async def _renew(self) -> None:
        seconds = self._terms.seconds
        request = wire.renewal(self.pool, self._granted.lease, seconds)
        outcome: Outcome | None = None
        while not self._is_closed:
            is_renewed = outcome is None or isinstance(outcome, wire.Renewed)
            await asyncio.sleep(seconds / 2 if is_renewed else REFUSED_REST_S)
            outcome = await self._engine.ask(request, self._engine.now() + DAY_S)
            if isinstance(outcome, wire.Renewed):
                with self._lock:
                    self._until_ms = max(self._until_ms, outcome.until_ms)
            elif isinstance(outcome, Refused) and outcome.status in (404, 409):
                break
        if not self._is_closed:
            with self._lock:
                self._is_lost, made = True, self._snowflakes
            log = self._engine.settings.logger
            log.warning("worker id %d of pool %s is lost: %s", self.worker_id, self.pool, outcome)
            if made is not None:
                await made.move()

    def refuse(self) -> bool:
        """Grants no millisecond from now on. Returns whether this was the first close."""
        with self._lock:
            was_open, self._is_closed = not self._is_closed, True
            return was_open

    async def give_back(self) -> None:
        """Gives back what was not stamped. A failure is no error: the lease then runs out by itself."""
        request = wire.give_back(self.pool, self._granted.lease, self._highest)
        await self._engine.ask(request, self._engine.now() + self._engine.settings.attempt_timeout)

    async def end(self) -> None:
        """Closes this lease, and the one that its generator moved to."""
        moved_to = self._snowflakes.held if self._snowflakes is not None else self
        mine = [held for held in {self, moved_to} if held.refuse()]
        # A node has ended a lost lease already.
        await asyncio.gather(*(held.give_back() for held in mine if not held.is_lost))

    def abandon(self) -> None:
        """Ends the lease in a forked child: it belongs to the parent."""
        self._lock = threading.Lock()
        self._is_closed = True
        if self._snowflakes is not None:
            self._snowflakes.lock = threading.Lock()

    def snowflakes(self, epoch_ms: int, worker_bits: int, sequence_bits: int) -> Snowflakes:
        """The one generator of this lease."""
        layout = (epoch_ms, worker_bits, sequence_bits)
        with self._lock:
            # The generator of a lease that is lost later moves when that is known.
            must_move = self._snowflakes is None and self._is_lost
            if self._snowflakes is None:
                self._snowflakes = Snowflakes(self, layout, self._highest)
            made = self._snowflakes
        if made.layout != layout:
            raise InvalidArgument("the lease has a generator with another layout already")
        if must_move:
            self._engine.spawn(made.move)
        return made

    def another(self, granted: wire.Granted) -> Held:
        """A new lease in the place of a lost one."""
        return Held(self._engine, self._terms, granted)

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def terms(self) -> Terms:
        return self._terms


class Snowflakes:
    """Snowflake ids of a lease, without a request for each. They go on with a new lease when theirs is lost."""

    def __init__(self, held: Held, layout: tuple[int, int, int], stamped: int) -> None:
        epoch_ms, worker_bits, sequence_bits = layout
        wire.check_whole("worker_bits", worker_bits, 0, 16)
        wire.check_whole("sequence_bits", sequence_bits, 0, 22)
        wire.check_whole("epoch_ms", epoch_ms, 0, held.from_ms)
        self.lock = threading.Lock()
        self.layout = layout
        self._epoch_ms = epoch_ms
        self._worker_bits = worker_bits
        self._sequence_bits = sequence_bits
        self._begin(held, stamped)

    def _begin(self, held: Held, stamped: int) -> None:
        if held.worker_id >> self._worker_bits:
            raise InvalidArgument(f"worker id {held.worker_id} does not fit into {self._worker_bits} worker_bits")
        self.held = held
        # The millisecond that was stamped last has no id left.
        self._last = stamped
        self._sequence = (1 << self._sequence_bits) - 1

    def take(self) -> int | None:
        """The next id, or None while the lease has no millisecond for it."""
        with self.lock:
            held = self.held
            last, sequence, now = self._last, self._sequence + 1, held.lease_now()
            at = now if now > last else last
            if at > last:
                sequence = 0
            elif sequence >> self._sequence_bits:
                at, sequence = at + 1, 0
            if not held.stamp(at):
                if held.is_closed:
                    raise Closed("the lease is closed")
                return None
            self._last, self._sequence = at, sequence
            high = (at - self._epoch_ms) << self._worker_bits | held.worker_id
            return high << self._sequence_bits | sequence

    async def move(self) -> None:
        """Takes a new lease of the pool, however long that takes, and goes on with it."""
        engine, terms, lost = self.held.engine, self.held.terms, self.held
        while not lost.is_closed:
            outcome = await engine.ask(terms.request(), engine.now() + DAY_S)
            if not isinstance(outcome, wire.Granted):
                engine.settings.logger.warning("pool %s gave no other lease: %s", terms.pool, outcome)
                await asyncio.sleep(REFUSED_REST_S)
                continue
            held = lost.another(outcome)
            if lost.is_closed:
                held.refuse()
                await held.give_back()
                return
            held._snowflakes = self
            held.keep()
            with self.lock:
                try:
                    self._begin(held, held.from_ms - 1)
                except InvalidArgument as error:
                    engine.settings.logger.error("%s", error)
            return


class WorkerSnowflakes:
    """Snowflake ids that this process makes by itself with a leased worker id. Thread-safe."""

    def __init__(self, of: Snowflakes, timeout: float) -> None:
        self._of = of
        self._timeout = timeout

    def next_id(self) -> int:
        """The next id. It waits for a renewal only if the lease is used up."""
        id = self._of.take()
        end = time.monotonic() + self._timeout
        while id is None:
            if time.monotonic() >= end:
                raise Unavailable("the lease of the worker id is used up, and no renewal came")
            time.sleep(LOOK_EVERY_S)
            id = self._of.take()
        return id


class AsyncWorkerSnowflakes:
    """Snowflake ids that this process makes by itself with a leased worker id."""

    def __init__(self, of: Snowflakes, timeout: float) -> None:
        self._of = of
        self._timeout = timeout

    async def next_id(self) -> int:
        """The next id. It waits for a renewal only if the lease is used up."""
        id = self._of.take()
        end = time.monotonic() + self._timeout
        while id is None:
            if time.monotonic() >= end:
                raise Unavailable("the lease of the worker id is used up, and no renewal came")
            await asyncio.sleep(LOOK_EVERY_S)
            id = self._of.take()
        return id


class _Lease:
    """What both faces of a lease share."""

    def __init__(self, held: Held) -> None:
        self._held = held

    @property
    def pool(self) -> str:
        """The pool that the worker id is of."""
        return self._held.pool

    @property
    def worker_id(self) -> int:
        """The worker id."""
        return self._held.worker_id

    @property
    def from_ms(self) -> int:
        """The first millisecond of the lease, in Unix time."""
        return self._held.from_ms

    @property
    def until_ms(self) -> int:
        """The first millisecond behind the lease. Renewals move it further."""
        return self._held.until_ms

    @property
    def is_lost(self) -> bool:
        """Whether a node refused a renewal, so that `until_ms` moves no more."""
        return self._held.is_lost

    @property
    def is_closed(self) -> bool:
        """Whether the lease is closed, and grants nothing any more."""
        return self._held.is_closed

    def may_stamp(self, ms: int) -> bool:
        """Whether this process may use the worker id with this millisecond. It reads no clock. Once the lease has a
        generator, all milliseconds are the generator's, and this is false."""
        return self._held.may_stamp(ms)

    def __repr__(self) -> str:
        # The name of the lease stays out of it, because it proves the holder.
        name = type(self).__name__
        return f"{name}(pool={self.pool!r}, worker_id={self.worker_id}, until_ms={self.until_ms})"


class WorkerLease(_Lease):
    """A worker id that no other process has, and its milliseconds. A context manager that closes it.

    It is renewed by itself until it is closed. It is *lost* once a node refuses a renewal; what it had before stays its
    own.
    """

    def __init__(self, held: Held, run: Callable[[Task], None]) -> None:
        super().__init__(held)
        self._run = run

    def generator(
        self, *, epoch_ms: int = EPOCH_MS, worker_bits: int = 10, sequence_bits: int = 12
    ) -> WorkerSnowflakes:
        """Snowflake ids with this worker id. All generators of a lease share one sequence, in one layout."""
        return WorkerSnowflakes(self._held.snowflakes(epoch_ms, worker_bits, sequence_bits), self._held.timeout)

    def close(self) -> None:
        """Ends the lease, and gives back the milliseconds that were not stamped."""
        if not self.is_closed:
            self._run(self._held.end)

    def __enter__(self) -> WorkerLease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncWorkerLease(_Lease):
    """A worker id that no other process has, and its milliseconds. An async context manager that closes it.

    It is renewed by itself until it is closed. It is *lost* once a node refuses a renewal; what it had before stays its
    own.
    """

    def generator(
        self, *, epoch_ms: int = EPOCH_MS, worker_bits: int = 10, sequence_bits: int = 12
    ) -> AsyncWorkerSnowflakes:
        """Snowflake ids with this worker id. All generators of a lease share one sequence, in one layout."""
        return AsyncWorkerSnowflakes(self._held.snowflakes(epoch_ms, worker_bits, sequence_bits), self._held.timeout)

    async def close(self) -> None:
        """Ends the lease, and gives back the milliseconds that were not stamped."""
        await self._held.end()

    async def __aenter__(self) -> AsyncWorkerLease:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
