"""One line: a tag or the snowflakes, its leases, the calls that wait, and when the next lease is asked for.

A `Line` takes events under the client's lock and returns what is to be done. It never waits, and its time comes from
the caller, in seconds.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any, Callable, Union

from .errors import Closed, MintleafError, Overloaded, Refused, Unavailable

#: The largest number of calls that wait on one line.
CALLS_MAX = 10_000
#: The most ids that callers take without the lock before they come back for more.
CHUNK_IDS_MAX = 16_384
CHUNK_IDS_MIN = 64
#: The shortest time over which a rate is measured.
ELAPSED_MIN_S = 0.001
#: The largest factor between one size and the next, up or down.
STEP_MAX = 4
NEVER = float("inf")

Result = Union[list[int], list[str], MintleafError]


@dataclass(frozen=True)
class Rules:
    """What all lines of a kind share."""

    first: int
    min: int
    max: int
    #: How long a lease is to last.
    lasts: float
    #: How long a lease may be used after its answer.
    fresh_for: float = NEVER
    #: How long a flight may take that asks for a lease before any call waits.
    ahead: float = 10.0
    #: Whether ids of this kind are known to be leasable before any answer says so.
    is_leased: bool = False


class Sizing:
    """Chooses the sizes of the leases of one line."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._last: int | None = None
        self._asked_at = 0.0
        self._count_max: int | None = None

    def next(self, now: float, used: int, waiting: int) -> int:
        """The size of a lease that is asked for now."""
        rules, asked_at, self._asked_at = self._rules, self._asked_at, now
        if self._count_max is not None:
            size, self._count_max = self._count_max, None
            self._last = size if self._last is None else min(self._last, size)
            return size
        if self._last is None:
            size = min(rules.first, rules.max)
        else:
            size = int(used * rules.lasts / max(now - asked_at, ELAPSED_MIN_S))
            size = min(max(size, self._last // STEP_MAX), self._last * STEP_MAX)
            size = min(max(size, min(rules.min, rules.max)), rules.max)
        self._last = size
        return min(size + waiting, rules.max)

    def at_most(self, count_max: int) -> None:
        """Limits the next lease to this size, because the node allows one request no more."""
        self._count_max = count_max

    def halve(self) -> None:
        """Halves the next sizes, because the node reports too many ids."""
        if self._last is not None:
            self._last //= 2


@dataclass(eq=False)
class Call:
    """A call that waits. `reply` may be called on any thread."""

    count: int
    deadline: float
    reply: Callable[[Any], None]
    got: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Order:
    """What a flight asks for: ranges, or a list that serves the first call."""

    count: int
    as_ranges: bool
    deadline: float


@dataclass
class Step:
    """What is to be done after an event: replies, a flight, and calls that each ask for themselves."""

    replies: list[tuple[Call, Result]] = field(default_factory=list)
    flight: Order | None = None
    own: list[Call] = field(default_factory=list)


class _Lease:
    def __init__(self, ranges: list[range], stale_at: float) -> None:
        self.ranges = deque(ranges)
        self.total = sum(map(len, ranges))
        #: Ids taken out of `ranges`, by calls or into the chunk.
        self.out = 0
        self.stale_at = stale_at
        self.mark: float = NEVER
        self.move_mark(0)

    def move_mark(self, used: int) -> None:
        """Moves the mark to half of what is left. The last one or two ids have none."""
        left = self.total - used
        self.mark = used + (left + 1) // 2 if left > 2 else NEVER

    def cut(self, most: int) -> range:
        """Takes up to `most` ids off the front range."""
        front = self.ranges[0]
        taken = front[:most]
        self.out += len(taken)
        if len(taken) == len(front):
            self.ranges.popleft()
        else:
            self.ranges[0] = front[most:]
        return taken


class _LockedIds:
    """A range that threads walk where there is no global interpreter lock."""

    def __init__(self, ids: range) -> None:
        self._ids = iter(ids)
        self._lock = threading.Lock()

    def __iter__(self) -> _LockedIds:
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._ids)

    def __length_hint__(self) -> int:
        return length_hint(self._ids)

    def drain(self) -> list[int]:
        with self._lock:
            return list(self._ids)


def _is_free_threaded() -> bool:
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def _drained(ids: Iterator[int]) -> list[int]:
    """All that is left, in one step that no other thread comes between: `list` of a range runs no Python code."""
    return ids.drain() if isinstance(ids, _LockedIds) else list(ids)


class Line:
    """The state of one line.

    `chunk` is a part of the current lease that callers walk without the lock, by the `__next__` of an iterator in C.
    It ends before the id whose use asks for the next lease, so that a caller comes back for this one.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._can_lease: bool | None = True if rules.is_leased else None
        self._leases: deque[_Lease] = deque()
        self.chunk: Iterator[int] = iter(range(0))
        self._chunk_end = 0
        self._chunk_size = CHUNK_IDS_MIN
        self._calls: deque[Call] = deque()
        self._own_calls = 0
        self._is_flying = False
        self._asker: Call | None = None
        self._sizing = Sizing(rules)
        #: Ids that have left the leases, less those that are in the chunk.
        self._out = 0
        self._handed_when_asked = 0
        self._met: MintleafError | None = None
        self._limited: tuple[int, float] | None = None
        self._is_closed = False

    @property
    def stale_at(self) -> float:
        """When the chunk may no longer be used."""
        return self._leases[0].stale_at if self._leases else 0.0

    def take(self, count: int, now: float, step: Step, share: bool) -> list[int]:
        """Up to `count` ids that are held. With `share`, others are left in the chunk for callers without the lock."""
        if self._calls or self._is_closed:
            return []
        got = self._give(count, now)
        self._order(now, step)
        if share:
            self._fill_chunk()
        return got

    def want(self, call: Call, now: float) -> Step:
        """A call wants more than was held for it."""
        step = Step()
        if self._is_closed:
            step.replies.append((call, Closed("the client is closed")))
        elif len(self._calls) + self._own_calls >= CALLS_MAX:
            step.replies.append((call, Overloaded(f"{CALLS_MAX} calls are waiting already; call again later")))
        elif self._can_lease is False:
            self._own_calls += 1
            step.own.append(call)
        else:
            self._calls.append(call)
            self._settle(now, step)
        return step

    def landed(self, ranges: list[range], now: float) -> Step:
        """The flight returned ids that may be kept."""
        step = Step()
        if not self._is_closed:
            self._is_flying, self._can_lease, self._met = False, True, None
            self._leases.append(_Lease(ranges, now + self._rules.fresh_for))
            self._settle(now, step)
        return step

    def not_for_keeping(self, listed: list[str] | None) -> Step:
        """The flight's answer says that its ids must not be kept. `listed` is for the call that asked."""
        step = Step()
        if self._is_closed:
            return step
        self._is_flying, self._can_lease, self._met = False, False, None
        if listed is not None and self._calls and self._calls[0] is self._asker:
            step.replies.append((self._calls.popleft(), list(listed)))
        self._own_calls += len(self._calls)
        step.own.extend(self._calls)
        self._calls.clear()
        return step

    def too_many(self, count_max: int, now: float) -> Step:
        """The flight asked for more ids than one request may have. The next one asks for `count_max`."""
        step = Step()
        self._is_flying = False
        self._sizing.at_most(count_max)
        self._settle(now, step)
        return step

    def refused(self, error: MintleafError, now: float) -> Step:
        """The flight was refused, and with it every call that waits."""
        step = Step()
        self._forget_shape(error)
        step.replies.extend((call, error) for call in self._calls)
        self._calls.clear()
        self._postpone()
        self._settle(now, step)
        return step

    def gave_up(self, now: float) -> Step:
        """The flight ran out of time."""
        step = Step()
        while self._calls and self._calls[0].deadline <= now:
            step.replies.append((self._calls.popleft(), self.time_up()))
        self._postpone()
        self._settle(now, step)
        return step

    def time_up(self) -> MintleafError:
        """The error of a call whose time is over."""
        return self._met or Unavailable("no answer yet")

    def met(self, error: MintleafError) -> None:
        """Notes the error of an attempt. Calls that run out of time before an answer fail with it."""
        self._met = error

    def rate_limited(self, endpoint: int, until: float) -> None:
        """An endpoint reports that the tag's rate limit is used up there until this time."""
        self._limited = (endpoint, until)
        self._sizing.halve()

    def limited(self, now: float) -> tuple[int, float] | None:
        """The endpoint to ask next, and the earliest time to ask it."""
        return self._limited if self._limited and self._limited[1] > now else None

    def forget(self, call: Call) -> None:
        """A call that waits has ended by itself."""
        if call in self._calls:
            self._calls.remove(call)

    def own_call_ended(self, result: Result) -> None:
        """A call that asked for itself has ended, perhaps with a refusal."""
        self._own_calls -= 1
        self._forget_shape(result)

    def close(self) -> Step:
        """Throws away what is held. The line hands out nothing from then on."""
        step = Step()
        self._is_closed = True
        _drained(self.chunk)
        self._leases.clear()
        step.replies.extend((call, Closed("the client is closed")) for call in self._calls)
        self._calls.clear()
        return step

    def _in_chunk(self) -> int:
        return length_hint(self.chunk)

    def _settle(self, now: float, step: Step) -> None:
        """Serves the waiting calls, in their order, from what is held. Then orders the next lease."""
        while self._calls:
            first = self._calls[0]
            first.got += self._give(first.count - len(first.got), now)
            if len(first.got) < first.count:
                break
            step.replies.append((self._calls.popleft(), first.got))
        self._order(now, step)

    def _give(self, wanted: int, now: float) -> list[int]:
        self._take_back()
        while self._leases and self._leases[0].stale_at <= now:
            self._leases.popleft()
        got: list[int] = []
        while wanted > len(got) and self._leases:
            lease = self._leases[0]
            if lease.ranges:
                got.extend(lease.cut(wanted - len(got)))
            if not lease.ranges:
                self._leases.popleft()
        self._out += len(got)
        return got

    def _order(self, now: float, step: Step) -> None:
        if self._is_flying or self._is_closed or self._can_lease is False:
            return
        first = self._calls[0] if self._calls else None
        deadline = now + self._rules.ahead if first is None else first.deadline
        if self._can_lease is None:
            if first is None:
                return
            step.flight = Order(first.count, False, deadline)
        else:
            if first is None and not self._is_half_used():
                return
            handed = self._out - self._in_chunk()
            used, self._handed_when_asked = handed - self._handed_when_asked, handed
            waiting = sum(call.count - len(call.got) for call in self._calls)
            step.flight = Order(self._sizing.next(now, used, waiting), True, deadline)
        self._asker, self._is_flying = first, True

    def _is_half_used(self) -> bool:
        return len(self._leases) == 1 and self._leases[0].out - self._in_chunk() >= self._leases[0].mark

    def _fill_chunk(self) -> None:
        if not self._leases or self._in_chunk():
            return
        lease, most = self._leases[0], self._chunk_size
        if len(self._leases) == 1 and not self._is_flying and lease.mark != NEVER:
            most = min(most, int(lease.mark) - lease.out - 1)
        if most > 0:
            ids = lease.cut(most)
            self._out += len(ids)
            self._chunk_end = ids.stop
            self.chunk = _LockedIds(ids) if _is_free_threaded() else iter(ids)
            self._chunk_size = min(2 * self._chunk_size, CHUNK_IDS_MAX)

    def _take_back(self) -> None:
        left = _drained(self.chunk)
        if left:
            lease = self._leases[0]
            lease.ranges.appendleft(range(left[0], self._chunk_end))
            lease.out -= len(left)
            self._out -= len(left)
            self._chunk_size = CHUNK_IDS_MIN

    def _postpone(self) -> None:
        """After a failure, the next lease is asked for when half of what is left is used."""
        self._is_flying = False
        self._take_back()
        if self._leases:
            self._leases[0].move_mark(self._leases[0].out)

    def _forget_shape(self, result: Result) -> None:
        if isinstance(result, Refused) and result.status in (400, 404) and not self._rules.is_leased:
            self._can_lease = None
