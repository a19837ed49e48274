"""A client without its face: its lines, and the flights that fill them.

Ids that are held are taken on the caller's thread. All that waits for the network is a task on one event loop: that of
the caller for `AsyncClient`, that of a thread of the client for `Client`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Callable, Union

from . import _wire as wire
from ._endpoints import Endpoints
from ._http import Address, Fault, Http, Token, within
from ._line import CALLS_MAX, Call, Line, Order, Result, Rules, Step
from ._wire import Meaning, Request
from .errors import Closed, InvalidArgument, MintleafError, Overloaded, Refused, Unavailable

#: The largest number of tags whose ids are kept. Calls for further tags each send their own request.
LINES_MAX = 10_000
#: The largest number of requests that a client has under way at once.
REQUESTS_MAX = 64
#: How often endpoints are asked for their zones, varied by up to a tenth either way.
ZONES_EVERY_S = 60.0
LEASE_MAX = 1_000_000
SNOWFLAKES_MAX = 100_000
DAY_S = 86_400.0

Outcome = Union[Meaning, Unavailable]
Task = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Settings:
    """The options of a client, checked."""

    addresses: list[Address]
    token: Token
    tls: ssl.SSLContext | None
    zone: str | None
    timeout: float
    attempt_timeout: float
    connect_timeout: float
    lease_max: int
    logger: logging.Logger

    def tags(self) -> Rules:
        """How ids of tags are leased."""
        return Rules(first=100, min=10, max=self.lease_max, lasts=10.0, ahead=self.timeout)

    def snowflakes(self) -> Rules:
        """How snowflakes are leased."""
        most = min(self.lease_max, SNOWFLAKES_MAX)
        return Rules(1, 1, most, lasts=0.5, fresh_for=1.0, ahead=self.timeout, is_leased=True)


def settings(
    endpoints: object,
    token: str | None,
    token_file: str | os.PathLike[str] | None,
    zone: str | None,
    ca_file: str | os.PathLike[str] | None,
    ssl_context: ssl.SSLContext | None,
    timeout: float,
    attempt_timeout: float,
    connect_timeout: float,
    lease_max: int,
    logger: logging.Logger | None,
) -> Settings:
    """Checks the options of a client."""
    if not isinstance(endpoints, (list, tuple)) or not endpoints:
        raise InvalidArgument(f"endpoints must be a list of addresses, such as ['http://HOST:PORT'], not {endpoints!r}")
    addresses = [Address.parse(endpoint) for endpoint in endpoints]
    waits = {"timeout": timeout, "attempt_timeout": attempt_timeout, "connect_timeout": connect_timeout}
    for name, wait in waits.items():
        if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0.001 <= wait <= DAY_S:
            raise InvalidArgument(f"{name} must be 0.001 to {DAY_S:.0f} seconds, not {wait!r}")
    if ca_file is not None and ssl_context is not None:
        raise InvalidArgument("ca_file and ssl_context exclude each other")
    tls = ssl_context
    if tls is None and any(address.is_https for address in addresses):
        try:
            tls = ssl.create_default_context(cafile=path("ca_file", ca_file))
        except OSError as error:
            raise InvalidArgument(f"ca_file {ca_file!r} cannot be used: {error.strerror or error}") from None
    file = path("token_file", token_file)
    wire.check_whole("lease_max", lease_max, 1, LEASE_MAX)
    log = logger or logging.getLogger("mintleaf")
    return Settings(addresses, Token(token, file), tls, zone, timeout, attempt_timeout, connect_timeout, lease_max, log)


def path(option: str, given: object) -> str | None:
    """The path that an option names."""
    if given is not None and not isinstance(given, (str, os.PathLike)):
        raise InvalidArgument(f"{option} must be the path of a file, not {given!r}")
    return None if given is None else os.fsdecode(given)


def default_holder() -> str:
    """The name under which a pool shows this process."""
    return f"{socket.gethostname()}-{os.getpid()}"[: wire.HOLDER_CHARS_MAX]


class Engine:
    """Everything that calls and flights share.

    `lock` guards the lines and the endpoints. `takers` has, for each tag, the `__next__` of the chunk that callers
    walk without the lock.
    """

    def __init__(self, settings: Settings, spawn: Callable[[Task], None]) -> None:
        self.settings = settings
        self.lock = threading.Lock()
        #: Held by the thread that closes the client.
        self.closing = threading.RLock()
        self.now = time.monotonic
        self.takers: dict[str, Callable[[], int]] = {}
        self.snowflake_taker: tuple[Callable[[], int], float] = (iter(range(0)).__next__, 0.0)
        self.is_closed = False
        #: Starts a task on the client's event loop, from any thread.
        self.spawn = spawn
        self._lines: dict[str, Line] = {}
        self._snowflakes = Line(settings.snowflakes())
        #: Calls that have a request of their own.
        self._waiting: set[Call] = set()
        self._endpoints = Endpoints(len(settings.addresses), random.Random())
        self._http = Http(settings.addresses, settings.tls, settings.token, settings.connect_timeout)
        self._requests: asyncio.Semaphore | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.leases: weakref.WeakSet[Any] = weakref.WeakSet()
        self._counts = {"requests": 0, "failed_requests": 0, "leases": 0, "leased_ids": 0, "waits": 0}

    # What callers use, on any thread.

    def take(self, tag: str | None, count: int, share: bool) -> list[int]:
        """Up to `count` ids that are held of a tag, or of the snowflakes."""
        line = self._snowflakes if tag is None else self._lines.get(tag)
        if line is None:
            return []
        step = Step()
        with self.lock:
            got = line.take(count, self.now(), step, share)
            if share:
                self._share(tag, line)
        self._carry_out(tag, line, step)
        return got

    def want(self, tag: str | None, call: Call) -> None:
        """A call that waits for ids of a tag, or for snowflakes."""
        step = Step()
        with self.lock:
            self._counts["waits"] += 1
            line = self._snowflakes if tag is None else self._line(tag)
            if self.is_closed:
                step.replies.append((call, Closed("the client is closed")))
            elif line is not None:
                step = line.want(call, self.now())
            self._waiting.update(step.own)
        if line is not None or step.replies:
            self._carry_out(tag, line or self._snowflakes, step)
        elif tag is not None:
            self.want_loose(wire.segment(tag, call.count, False), call)

    def want_loose(self, request: Request, call: Call) -> None:
        """A call without a line, which sends a request of its own."""

        async def ask() -> None:
            call.reply(self._result(await self.ask(request, call.deadline)))

        self.start_call(call, ask)

    def start_call(self, call: Call, ask: Task) -> None:
        """Starts a call without a line, unless the client is closed or too many wait."""

        async def run() -> None:
            try:
                await ask()
            finally:
                with self.lock:
                    self._waiting.discard(call)

        with self.lock:
            error: MintleafError | None = None
            if self.is_closed:
                error = Closed("the client is closed")
            elif len(self._waiting) >= CALLS_MAX:
                error = Overloaded(f"{CALLS_MAX} calls are waiting already; call again later")
            else:
                self._waiting.add(call)
        if error is None:
            self.spawn(run)
        else:
            call.reply(error)

    def give_up(self, tag: str | None, call: Call) -> MintleafError:
        """A call that waits has ended by itself. Returns the error that it ends with if its time is over."""
        with self.lock:
            line = self._snowflakes if tag is None else self._lines.get(tag)
            if line is None:
                return Unavailable("no answer yet")
            line.forget(call)
            return line.time_up()

    def stats(self) -> dict[str, int]:
        """What the client has done since it was made."""
        with self.lock:
            return dict(self._counts)

    def close_lines(self) -> bool:
        """Throws away what is held, and ends every call that waits. Returns whether this was the first close."""
        with self.lock:
            if self.is_closed:
                return False
            self.is_closed = True
            steps = [line.close() for line in (*self._lines.values(), self._snowflakes)]
            waiting = list(self._waiting)
            self.takers.clear()
        for step in steps:
            for call, result in step.replies:
                call.reply(result)
        for call in waiting:
            call.reply(Closed("the client is closed"))
        return True

    def abandon(self) -> None:
        """Ends the chunks in a forked child, where no other thread is: not even a call that has begun gets an id."""
        for line in (*self._lines.values(), self._snowflakes):
            for _ in line.chunk:
                pass
        for lease in list(self.leases):
            lease.abandon()
        self.closing = threading.RLock()
        self._http.abandon()

    # What runs on the event loop.

    def start_task(self, task: Task) -> None:
        """Starts a task here. It ends with the client."""
        if self._requests is None:
            self._requests = asyncio.Semaphore(REQUESTS_MAX)
            if self.settings.zone is not None and not self.is_closed:
                self.start_task(self._watch_zones)
        running = asyncio.get_running_loop().create_task(task())
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    async def _give_up(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def give_back(self, leases: list[Any]) -> None:
        """Gives leases back, after all requests under way have been given up."""
        ends = [asyncio.ensure_future(lease.end()) for lease in leases]
        await self._give_up()
        await asyncio.gather(*ends)

    async def end(self) -> None:
        """Ends all tasks and connections."""
        await self._give_up()
        self._http.close()
        # A socket is closed one turn of the event loop after its connection is aborted.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def ask(self, request: Request, deadline: float, line: Line | None = None) -> Outcome:
        """Asks one endpoint after another until one answers or the deadline passes.

        An attempt that the deadline cuts short has met nothing: the error is that of the last one before it.
        """
        last: Unavailable | Refused = Unavailable("no answer yet")
        pinned = None
        if line is not None:
            with self.lock:
                pinned = line.limited(self.now())
        is_first = True
        while True:
            if pinned is not None:
                endpoint, at = pinned
            else:
                with self.lock:
                    endpoint, at = self._endpoints.pick(self.now())
                at = self.now() if is_first else at
            pinned, is_first = None, False
            await self._sleep_until(min(at, deadline))
            meaning = None if self.now() >= deadline else await self._attempt(endpoint, request, deadline)
            if meaning is None:
                return last
            if isinstance(meaning, wire.RateLimited):
                pinned = (endpoint, self.now() + meaning.wait)
                last = meaning.refusal
                if line is not None:
                    with self.lock:
                        line.rate_limited(*pinned)
            elif isinstance(meaning, wire.Failed):
                last = Unavailable(f"{self.settings.addresses[endpoint].authority}: {meaning.why}")
            else:
                return meaning
            if line is not None:
                with self.lock:
                    line.met(last)

    async def _sleep_until(self, at: float) -> None:
        # `asyncio` may wake a tick early, and an endpoint is not asked before its rest is over.
        while (left := at - self.now()) > 0:
            await asyncio.sleep(left)

    async def _attempt(self, endpoint: int, request: Request, deadline: float) -> Meaning | None:
        """One attempt, whose outcome is noted for the endpoint; None if the deadline cuts it short."""
        assert self._requests is not None
        try:
            if self._requests.locked():
                await within(deadline - self.now(), self._requests.acquire())
            else:
                await self._requests.acquire()
        except asyncio.TimeoutError:
            return None
        try:
            allowed, left = self.settings.attempt_timeout, deadline - self.now()
            self._counts["requests"] += 1
            try:
                answer = await within(min(allowed, left), self._http.ask(endpoint, request))
            except asyncio.TimeoutError:
                if left < allowed:
                    # The endpoint is not to blame when the call's own deadline passes.
                    return None
                meaning: Meaning = wire.Failed(f"no answer within {allowed} s")
            except Fault as fault:
                meaning = wire.Failed(str(fault))
            else:
                meaning = wire.read(request, answer)
            self._note(endpoint, meaning)
            return meaning
        finally:
            self._requests.release()

    def _note(self, endpoint: int, meaning: Meaning) -> None:
        log, at = self.settings.logger, self.settings.addresses[endpoint].authority
        if isinstance(meaning, wire.Failed):
            with self.lock:
                in_a_row = self._endpoints.failed(endpoint, self.now(), meaning.rest)
                self._counts["failed_requests"] += 1
            log.log(logging.WARNING if in_a_row == 1 else logging.DEBUG, "%s failed: %s", at, meaning.why)
            return
        with self.lock:
            is_back = self._endpoints.answered(endpoint)
        if is_back:
            log.info("%s answers again", at)

    async def _fly(self, tag: str | None, line: Line, order: Order) -> None:
        """The flight for a lease, or for the first ids of a line."""
        request = wire.segment(tag, order.count, order.as_ranges)
        outcome = await self.ask(request, order.deadline, line)
        with self.lock:
            step = self._land(line, outcome)
            self._waiting.update(step.own)
        if isinstance(outcome, Refused) and not step.replies:
            self.settings.logger.warning("a lease ahead was refused: %s", outcome)
        self._carry_out(tag, line, step)

    def _land(self, line: Line, outcome: Outcome) -> Step:
        now = self.now()
        if isinstance(outcome, wire.Lease) or (isinstance(outcome, wire.Listed) and outcome.may_be_kept):
            is_lease = isinstance(outcome, wire.Lease)
            ranges = outcome.ranges if isinstance(outcome, wire.Lease) else wire.joined(wire.numbers(outcome.ids))
            self._counts["leases"] += is_lease
            self._counts["leased_ids"] += sum(map(len, ranges)) if is_lease else 0
            return line.landed(ranges, now)
        if isinstance(outcome, wire.Listed):
            return line.not_for_keeping(outcome.ids)
        if isinstance(outcome, wire.NotForKeeping):
            return line.not_for_keeping(None)
        if isinstance(outcome, wire.TooMany):
            return line.too_many(outcome.count_max, now)
        if isinstance(outcome, Refused) and outcome.status != 429:
            return line.refused(outcome, now)
        return line.gave_up(now)

    async def _ask_for_itself(self, tag: str | None, line: Line, call: Call) -> None:
        """The flight of one call. Its ids go to this call alone."""
        result: Result = Closed("the client is closed")
        try:
            result = self._result(await self.ask(wire.segment(tag, call.count, False), call.deadline, line))
        finally:
            with self.lock:
                line.own_call_ended(result)
                self._waiting.discard(call)
            call.reply(result)

    @staticmethod
    def _result(outcome: Outcome) -> Result:
        if isinstance(outcome, wire.Listed):
            return outcome.ids
        return outcome if isinstance(outcome, MintleafError) else Unavailable("the answer has no ids")

    def _carry_out(self, tag: str | None, line: Line, step: Step) -> None:
        for call, result in step.replies:
            call.reply(result)
        if step.flight is not None:
            order = step.flight
            self.spawn(lambda: self._fly(tag, line, order))
        for call in step.own:
            self.spawn(lambda call=call: self._ask_for_itself(tag, line, call))  # type: ignore[misc]

    def _line(self, tag: str) -> Line | None:
        """The line of a tag, which is made if it does not exist. None when there are too many."""
        line = self._lines.get(tag)
        if line is None and len(self._lines) < LINES_MAX:
            line = self._lines[tag] = Line(self.settings.tags())
        return line

    def _share(self, tag: str | None, line: Line) -> None:
        if tag is None:
            self.snowflake_taker = (line.chunk.__next__, line.stale_at)
        elif not self.is_closed:
            self.takers[tag] = line.chunk.__next__

    async def _watch_zones(self) -> None:
        """Asks every endpoint for its zone, again and again. A zone stays as it was when no answer comes."""
        while True:
            await asyncio.gather(*(self._ask_zone(endpoint) for endpoint in range(len(self.settings.addresses))))
            await asyncio.sleep(self._endpoints.about(ZONES_EVERY_S))

    async def _ask_zone(self, endpoint: int) -> None:
        assert self._requests is not None
        async with self._requests:
            try:
                answer = await within(self.settings.attempt_timeout, self._http.ask(endpoint, wire.CLUSTER))
            except (asyncio.TimeoutError, Fault):
                return
        is_in_zone = wire.is_in_zone(answer, self.settings.zone or "") if answer.status == 200 else None
        if is_in_zone is not None:
            with self.lock:
                self._endpoints.set_in_zone(endpoint, is_in_zone)
