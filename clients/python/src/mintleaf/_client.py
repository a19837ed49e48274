"""The two faces of a client: for threads, and for asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import logging
import os
import ssl
import threading
import weakref
from time import monotonic
from typing import Any, Callable, TypeVar, Union, cast

from . import _wire as wire
from ._engine import Engine, Settings, Task, settings
from ._line import Call
from ._worker import AsyncWorkerLease, Held, Terms, WorkerLease, want_lease
from .errors import Closed, MintleafError, Unavailable

#: How much later than its deadline a call ends by itself, if its line has not ended it.
GRACE_S = 0.02

Path = Union[str, "os.PathLike[str]"]


def _ids(result: Any) -> list[int]:
    if isinstance(result, MintleafError):
        raise result.with_traceback(None)
    return wire.numbers(result) if isinstance(result[0], str) else result


def _text(result: Any) -> str:
    if isinstance(result, MintleafError):
        raise result.with_traceback(None)
    return str(result[0])


def _value(result: Any) -> Any:
    if isinstance(result, MintleafError):
        raise result.with_traceback(None)
    return result


def _want_registered(engine: Engine, tag: str, key: str, call: Call) -> None:
    request = wire.register(wire.check_name("tag", tag), wire.check_key(key))

    async def ask() -> None:
        outcome = await engine.ask(request, call.deadline)
        is_known = isinstance(outcome, (wire.Registered, MintleafError))
        call.reply(outcome if is_known else Unavailable("the answer is not an entry of a register"))

    engine.start_call(call, ask)


def _sequence(tag: str, key: str) -> wire.Request:
    return wire.sequence(wire.check_name("tag", tag), wire.check_key(key))


Make = TypeVar("Make", bound=Callable[..., None])


def _naming_unknown_options(make: Make) -> Make:
    """An option that does not exist is named, beside all that do."""
    known = list(inspect.signature(make).parameters)[1:]

    @functools.wraps(make)
    def checked(*arguments: Any, **options: Any) -> None:
        for name in options:
            if name not in known:
                raise TypeError(f"there is no option {name!r}; the options are {', '.join(known)}")
        make(*arguments, **options)

    return cast(Make, checked)


class _Face:
    """What both faces share: the options, the engine, and a forked child that begins anew."""

    @_naming_unknown_options
    def __init__(
        self,
        endpoints: list[str] | tuple[str, ...],
        token: str | None = None,
        *,
        token_file: Path | None = None,
        zone: str | None = None,
        ca_file: Path | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout: float = 10.0,
        attempt_timeout: float = 2.5,
        connect_timeout: float = 1.0,
        lease_max: int = 1_000_000,
        logger: logging.Logger | None = None,
    ) -> None:
        """Makes a client of the nodes at `endpoints`, `http://HOST:PORT` or `https://HOST:PORT`. Times are in
        seconds."""
        self._settings: Settings = settings(
            endpoints,
            token,
            token_file,
            zone,
            ca_file,
            ssl_context,
            timeout,
            attempt_timeout,
            connect_timeout,
            lease_max,
            logger,
        )
        self._begin()
        _FACES.add(self)

    def _begin(self) -> None:
        raise NotImplementedError

    def _abandoned(self) -> object:
        return self._engine

    _engine: Engine
    _takers: dict[str, Callable[[], int]]

    def stats(self) -> dict[str, int]:
        """Counts that only rise: `requests`, `failed_requests`, `leases`, `leased_ids`, `waits`."""
        return self._engine.stats()

    def _call(self, count: int, reply: Callable[[Any], None], got: list[int] | None = None) -> Call:
        return Call(count, self._engine.now() + self._settings.timeout, reply, got or [])


#: All clients of this process, and in a forked child what its parent's clients had: the child must not finalize
#: an event loop whose selector the parent still uses.
_FACES: weakref.WeakSet[_Face] = weakref.WeakSet()
_OF_THE_PARENT: list[object] = []


def _in_forked_child() -> None:
    for face in list(_FACES):
        _OF_THE_PARENT.append(face._abandoned())
        face._engine.abandon()
        if not face._engine.is_closed:
            face._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


class _LoopThread:
    """An event loop on a thread of its own. Both begin with the first task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self.engine: Engine | None = None

    def spawn(self, task: Task) -> None:
        with self._lock:
            if self._is_stopped:
                raise Closed("the client is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A future, because an Event of Python 3.9 belongs to the event loop of the calling thread.
                self._stop = self._loop.create_future()
                self._thread = threading.Thread(target=self._run, name="mintleaf-client", daemon=True)
                self._thread.start()
            assert self.engine is not None
            self._loop.call_soon_threadsafe(self.engine.start_task, task)

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            loop, thread = self._loop, self._thread
            if loop is not None and not loop.is_closed():
                loop.call_soon_threadsafe(_set, self._stop)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        loop, engine = self._loop, self.engine
        assert loop is not None and engine is not None

        async def serve() -> None:
            await self._stop
            await engine.end()

        try:
            loop.run_until_complete(serve())
        finally:
            loop.close()


class Client(_Face):
    """Ids from a Mintleaf cluster, for threads.

    It leases many ids at once and hands them out from memory. Thread-safe; a forked child begins with nothing held.

        with Client(["http://a:8080", "http://b:8080", "http://c:8080"]) as client:
            client.next_id("orders")
    """

    def _begin(self) -> None:
        self._thread = _LoopThread()
        self._engine = self._thread.engine = Engine(self._settings, self._thread.spawn)
        self._takers = self._engine.takers
        self._finalizer = weakref.finalize(self, _finish, self._engine, self._thread)
        if self._settings.zone is not None:
            self._thread.spawn(_nothing)

    def _abandoned(self) -> object:
        self._finalizer.detach()
        return self._engine, self._thread

    def next_id(self, tag: str) -> int:
        """The next id of a tag. No other caller gets it."""
        try:
            return self._takers[tag]()
        except (KeyError, StopIteration):
            pass
        got = self._engine.take(tag, 1, True)
        return got[0] if got else _ids(self._wait_for(wire.check_name("tag", tag), 1))[0]

    def next_ids(self, tag: str, n: int) -> list[int]:
        """`n` ids of a tag, 1 to 10,000, rising where the tag is leased. They need not be consecutive."""
        wire.check_whole("n", n, 1, wire.COUNT_MAX)
        got = self._engine.take(tag, n, False)
        return got if len(got) == n else _ids(self._wait_for(wire.check_name("tag", tag), n, got))

    def next_text(self, tag: str) -> str:
        """The next id of a tag as the cluster writes it, such as `INV-2026-000017` for a tag with a format."""
        try:
            return str(self._takers[tag]())
        except (KeyError, StopIteration):
            pass
        got = self._engine.take(tag, 1, True)
        return str(got[0]) if got else _text(self._wait_for(wire.check_name("tag", tag), 1))

    def next_snowflake(self) -> int:
        """The next snowflake id. The time in it is at most a second old."""
        take, stale_at = self._engine.snowflake_taker
        if monotonic() < stale_at:
            try:
                return take()
            except StopIteration:
                pass
        got = self._engine.take(None, 1, True)
        return got[0] if got else _ids(self._wait_for(None, 1))[0]

    def next_number(self, tag: str, key: str) -> int:
        """The next number of a key of a sequence. Each call is a request."""
        request = _sequence(tag, key)
        return _ids(self._wait(lambda call: self._engine.want_loose(request, call)))[0]

    def register(self, tag: str, key: str) -> wire.Registered:
        """The number of a key in a register: the same key gets the same number for ever."""
        result: wire.Registered = _value(self._wait(lambda call: _want_registered(self._engine, tag, key, call)))
        return result

    def lease_worker(self, pool: str, *, seconds: int = 60, holder: str | None = None) -> WorkerLease:
        """A worker id of a pool that no other process has, renewed until it is closed."""
        engine, terms = self._engine, Terms(pool, seconds, holder)

        def make(held: Held) -> WorkerLease:
            return WorkerLease(held, self._run)

        lease: WorkerLease = _value(self._wait(lambda call: want_lease(engine, terms, make, call)))
        return lease

    def close(self) -> None:
        """Wastes what is held and closes worker leases. Calls that wait fail with `Closed`, and so do later ones."""
        with self._engine.closing:  # A second close waits for the first.
            open_leases = [lease for lease in list(self._engine.leases) if not lease.is_closed]
            if self._engine.close_lines() and open_leases:
                self._run(lambda: self._engine.give_back(open_leases))
            self._thread.stop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, task: Task) -> None:
        """Runs a task on the event loop and waits for its end. A task that the client's close ends is no error."""
        ended = threading.Event()

        async def run() -> None:
            try:
                await task()
            finally:
                ended.set()

        try:
            self._thread.spawn(run)
        except Closed:
            return
        ended.wait(self._settings.attempt_timeout + GRACE_S)

    def _wait_for(self, tag: str | None, count: int, got: list[int] | None = None) -> Any:
        return self._wait(lambda call: self._engine.want(tag, call), tag, count, got)

    def _wait(
        self,
        want: Callable[[Call], None],
        tag: str | None = None,
        count: int = 1,
        got: list[int] | None = None,
    ) -> Any:
        waiter: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def reply(result: Any) -> None:
            # A call that has ended takes no other result.
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                waiter.set_result(result)

        call = self._call(count, reply, got)
        try:
            want(call)
            return waiter.result(self._settings.timeout + GRACE_S)
        except concurrent.futures.TimeoutError:
            raise self._engine.give_up(tag, call) from None
        except BaseException:
            self._engine.give_up(tag, call)
            raise


async def _nothing() -> None:
    pass


def _set(stop: asyncio.Future[None]) -> None:
    if not stop.done():
        stop.set_result(None)


def _finish(engine: Engine, thread: _LoopThread) -> None:
    engine.close_lines()
    thread.stop()


class AsyncClient(_Face):
    """Ids from a Mintleaf cluster, for asyncio. It belongs to the event loop of its first call.

    async with AsyncClient(["http://a:8080", "http://b:8080"]) as client:
        await client.next_id("orders")
    """

    def _begin(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Future[None] | None = None
        self._engine = Engine(self._settings, self._spawn)
        self._takers = self._engine.takers
        self._ask_for_zones()

    def _ask_for_zones(self) -> None:
        """Begins to ask for zones, unless no event loop runs yet: then the first call does."""
        if self._settings.zone is not None:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop()
                self._spawn(_nothing)

    def _spawn(self, task: Task) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if loop is not self._loop:
            raise RuntimeError("an AsyncClient belongs to one event loop; make another one for this loop")
        self._engine.start_task(task)

    async def next_id(self, tag: str) -> int:
        """The next id of a tag. No other caller gets it."""
        try:
            return self._takers[tag]()
        except (KeyError, StopIteration):
            pass
        got = self._engine.take(tag, 1, True)
        return got[0] if got else _ids(await self._wait_for(wire.check_name("tag", tag), 1))[0]

    async def next_ids(self, tag: str, n: int) -> list[int]:
        """`n` ids of a tag, 1 to 10,000, rising where the tag is leased. They need not be consecutive."""
        wire.check_whole("n", n, 1, wire.COUNT_MAX)
        got = self._engine.take(tag, n, False)
        return got if len(got) == n else _ids(await self._wait_for(wire.check_name("tag", tag), n, got))

    async def next_text(self, tag: str) -> str:
        """The next id of a tag as the cluster writes it, such as `INV-2026-000017` for a tag with a format."""
        got = self._engine.take(tag, 1, True)
        return str(got[0]) if got else _text(await self._wait_for(wire.check_name("tag", tag), 1))

    async def next_snowflake(self) -> int:
        """The next snowflake id. The time in it is at most a second old."""
        take, stale_at = self._engine.snowflake_taker
        if monotonic() < stale_at:
            try:
                return take()
            except StopIteration:
                pass
        got = self._engine.take(None, 1, True)
        return got[0] if got else _ids(await self._wait_for(None, 1))[0]

    async def next_number(self, tag: str, key: str) -> int:
        """The next number of a key of a sequence. Each call is a request."""
        request = _sequence(tag, key)
        return _ids(await self._wait(lambda call: self._engine.want_loose(request, call)))[0]

    async def register(self, tag: str, key: str) -> wire.Registered:
        """The number of a key in a register: the same key gets the same number for ever."""
        result: wire.Registered = _value(await self._wait(lambda call: _want_registered(self._engine, tag, key, call)))
        return result

    async def lease_worker(self, pool: str, *, seconds: int = 60, holder: str | None = None) -> AsyncWorkerLease:
        """A worker id of a pool that no other process has, renewed until it is closed."""
        engine, terms = self._engine, Terms(pool, seconds, holder)
        lease: AsyncWorkerLease = _value(
            await self._wait(lambda call: want_lease(engine, terms, AsyncWorkerLease, call))
        )
        return lease

    async def close(self) -> None:
        """Wastes what is held and closes worker leases. Calls that wait fail with `Closed`, and so do later ones."""
        if self._closing is None:
            open_leases = [lease for lease in list(self._engine.leases) if not lease.is_closed]
            self._engine.close_lines()
            self._closing = asyncio.ensure_future(self._end(open_leases))
        await asyncio.shield(self._closing)

    async def _end(self, open_leases: list[Any]) -> None:
        await self._engine.give_back(open_leases)
        await self._engine.end()

    async def __aenter__(self) -> AsyncClient:
        self._ask_for_zones()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _wait_for(self, tag: str | None, count: int, got: list[int] | None = None) -> Any:
        return await self._wait(lambda call: self._engine.want(tag, call), tag, count, got)

    async def _wait(
        self,
        want: Callable[[Call], None],
        tag: str | None = None,
        count: int = 1,
        got: list[int] | None = None,
    ) -> Any:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()

        def reply(result: Any) -> None:
            if not waiter.done():
                waiter.set_result(result)

        call = self._call(count, reply, got)

        def time_up() -> None:
            if not waiter.done():
                waiter.set_result(self._engine.give_up(tag, call))

        timer = loop.call_later(self._settings.timeout + GRACE_S, time_up)
        try:
            want(call)
            return await waiter
        except BaseException:
            self._engine.give_up(tag, call)
            raise
        finally:
            timer.cancel()
