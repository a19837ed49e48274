"""Requests to nodes, and what their answers mean. Ids come from a whole and well-formed answer, or not at all."""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Union
from urllib.parse import quote

from .errors import InvalidArgument, NotANumber, Refused

TAG_CHARS_MAX = 128
KEY_BYTES_MAX = 256
#: The most ids of one call, and of one answer that lists them.
COUNT_MAX = 10_000
#: The first number past all ids.
ID_END = 1 << 63
#: The longest `Retry-After` of a node that a flight obeys, in seconds: no call waits longer.
RETRY_AFTER_MAX_S = 3_600
WORKERS_MAX = 65_536
HOLDER_CHARS_MAX = 128

# At most 19 digits, so that no answer makes a huge number.
_DIGITS = re.compile(r"[0-9]{1,19}", re.ASCII)
#: The most characters of an answer that an error shows.
SAID_CHARS_MAX = 200


@dataclass(frozen=True)
class Request:
    """One request. `kind` is ids, ranges, register, lease, renewal, give_back or cluster."""

    kind: str
    path: str
    count: int = 0
    method: str = "GET"
    body: bytes | None = None


@dataclass(frozen=True)
class Answer:
    """An answer that has arrived as a whole."""

    status: int
    retry_after: str | None
    body: bytes


@dataclass(frozen=True)
class Lease:
    """Ids that may be kept."""

    ranges: list[range]


@dataclass(frozen=True)
class Listed:
    """Ids for the call that asked, and whether other ids of the tag may be kept."""

    ids: list[str]
    may_be_kept: bool


@dataclass(frozen=True)
class NotForKeeping:
    """Ranges that say `"lease": false`. They are thrown away."""


@dataclass(frozen=True)
class Failed:
    """The endpoint failed. `rest` is the wait, in seconds, that it asked for itself."""

    why: str
    rest: float = 0.0


@dataclass(frozen=True)
class RateLimited:
    """The tag's rate limit is used up on this endpoint."""

    refusal: Refused
    wait: float


@dataclass(frozen=True)
class TooMany:
    """The lease was for more ids than the tag's rate limit allows one request, which is `count_max`."""

    count_max: int


@dataclass(frozen=True)
class Registered:
    """The number of a key, the same for ever."""

    id: int
    text: str
    period: str | None
    new: bool


@dataclass(frozen=True)
class Granted:
    """A lease of a worker id."""

    worker_id: int
    lease: str
    from_ms: int
    until_ms: int


@dataclass(frozen=True)
class Renewed:
    """A renewal, or the end of a lease that was given back."""

    until_ms: int


Meaning = Union[Lease, Listed, NotForKeeping, Failed, RateLimited, TooMany, Registered, Granted, Renewed, Refused]


class _Fault(Exception):
    """Why an answer is not used."""


def escaped(text: str) -> str:
    """One path segment. The dot is escaped too, so that no library takes `..` for a way up."""
    return quote(text, safe="").replace(".", "%2E")


def segment(tag: str | None, count: int, as_ranges: bool) -> Request:
    """A request for ids of a tag, or for snowflakes where there is none."""
    place = "snowflake" if tag is None else f"segment/{escaped(tag)}"
    query = f"count={count}&format=ranges" if as_ranges else f"count={count}"
    return Request("ranges" if as_ranges else "ids", f"/v1/{place}?{query}", count)


def sequence(tag: str, key: str) -> Request:
    return Request("ids", f"/v1/sequence/{escaped(tag)}/{escaped(key)}?count=1", 1)


def register(tag: str, key: str) -> Request:
    return Request("register", f"/v1/register/{escaped(tag)}/{escaped(key)}", method="POST")


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def grant(pool: str, seconds: int, holder: str) -> Request:
    body = _json({"seconds": seconds, "holder": holder})
    return Request("lease", f"/v1/pools/{escaped(pool)}/leases", method="POST", body=body)


def renewal(pool: str, lease: str, seconds: int) -> Request:
    path = f"/v1/pools/{escaped(pool)}/leases/{escaped(lease)}"
    return Request("renewal", path, method="POST", body=_json({"seconds": seconds}))


def give_back(pool: str, lease: str, last_ms: int) -> Request:
    path = f"/v1/pools/{escaped(pool)}/leases/{escaped(lease)}"
    return Request("give_back", path, method="DELETE", body=_json({"last_ms": str(last_ms)}))


CLUSTER = Request("cluster", "/v1/cluster")


def check_name(what: str, name: object) -> str:
    """Whether a node would take this tag, or this name of a pool."""
    if not isinstance(name, str):
        raise InvalidArgument(f"{what} must be a str, not {type(name).__name__}")
    if not 1 <= len(name) <= TAG_CHARS_MAX:
        raise InvalidArgument(f"{what} must have 1 to {TAG_CHARS_MAX} characters, not {len(name)}")
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        raise InvalidArgument(f"{what} must not hold control characters or surrogates")
    return name


def check_key(key: object) -> str:
    """Whether a node would take this key."""
    if not isinstance(key, str):
        raise InvalidArgument(f"key must be a str, not {type(key).__name__}")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidArgument("key must not hold surrogates") from None
    if not 1 <= size <= KEY_BYTES_MAX:
        raise InvalidArgument(f"key must have 1 to {KEY_BYTES_MAX} bytes, not {size}")
    return key


def check_whole(what: str, value: object, least: int, most: int) -> int:
    """A whole number within its bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidArgument(f"{what} must be {least} to {most}, not {value!r}")
    return value


def number(text: object) -> int | None:
    """The id that the text holds, if it holds one."""
    value = _digits(text)
    return value if value is not None and 1 <= value < ID_END else None


def numbers(ids: list[str]) -> list[int]:
    """The ids of an answer as numbers."""
    values = []
    for text in ids:
        value = number(text)
        if value is None:
            raise NotANumber(f"{text!r} is not a number: ids of this tag are texts, which next_text returns")
        values.append(value)
    return values


def joined(ids: list[int]) -> list[range]:
    """Consecutive ids as ranges."""
    ranges: list[range] = []
    for id in ids:
        if ranges and ranges[-1].stop == id:
            ranges[-1] = range(ranges[-1].start, id + 1)
        else:
            ranges.append(range(id, id + 1))
    return ranges


def read(request: Request, answer: Answer) -> Meaning:
    """What an answer means for the request that it answers."""
    wanted = (200,) if request.kind in ("ids", "ranges") else (200, 201, 204)
    if answer.status not in wanted:
        return _read_refusal(request, answer)
    try:
        if request.kind == "give_back":
            return Renewed(0)
        body = _object(answer.body)
        return _READERS[request.kind](request, body)
    except _Fault as fault:
        return Failed(str(fault))


def is_in_zone(answer: Answer, zone: str) -> bool | None:
    """Whether the node that answered `GET /v1/cluster` is in a zone; None if the answer is not about that node."""
    try:
        body = _object(answer.body)
    except _Fault:
        return None
    nodes = body.get("nodes")
    for node in nodes if isinstance(nodes, list) else []:
        if isinstance(node, dict) and "id" in node and node["id"] == body.get("node_id"):
            return bool(node.get("zone") == zone)
    return None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise _Fault("the answer is not JSON") from None
    if not isinstance(value, dict):
        raise _Fault("the answer is not a JSON object")
    return value


def _digits(text: object) -> int | None:
    return int(text) if isinstance(text, str) and _DIGITS.fullmatch(text) else None


def _may_be_kept(body: dict[str, Any]) -> bool:
    lease = body.get("lease")
    if lease is not None and not isinstance(lease, bool):
        raise _Fault("the answer has a lease that is neither true nor false")
    return lease is not False


def _read_ranges(request: Request, body: dict[str, Any]) -> Meaning:
    if not _may_be_kept(body):
        return NotForKeeping()
    given = body.get("ranges")
    if not isinstance(given, list):
        raise _Fault("the answer has no ranges")
    ranges = []
    for item in given:
        start, end = (_digits(item.get("start")), _digits(item.get("end"))) if isinstance(item, dict) else (None, None)
        if start is None or end is None or not 1 <= start < end <= ID_END:
            raise _Fault("the answer has a range that is malformed or out of bounds")
        ranges.append(range(start, end))
    _check(ranges, request.count)
    return Lease(ranges)


def _read_ids(request: Request, body: dict[str, Any]) -> Meaning:
    ids = body.get("ids")
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise _Fault("the answer has no ids")
    if len(ids) != request.count:
        raise _Fault("the answer has more or fewer ids than were asked for")
    may_be_kept = _may_be_kept(body)
    if may_be_kept:
        # A tag whose ids may be leased has numbers as ids, and answers list them in rising order.
        values = [value for value in map(number, ids) if value is not None]
        if len(values) != len(ids):
            raise _Fault("the answer has an id that is not a number from 1 to 2^63-1")
        _check(joined(values), request.count)
    elif len(set(ids)) < len(ids):
        raise _Fault("the answer has an id twice")
    return Listed(ids, may_be_kept)


def _check(ranges: list[range], count: int) -> None:
    if any(after.start < before.stop for before, after in zip(ranges, ranges[1:])):
        raise _Fault("the answer has ids that do not rise")
    if sum(ids.stop - ids.start for ids in ranges) != count:
        raise _Fault("the answer has more or fewer ids than were asked for")


def _read_register(_: Request, body: dict[str, Any]) -> Meaning:
    id, text, period, new = number(body.get("id")), body.get("text"), body.get("period"), body.get("new")
    if id is None:
        raise _Fault("the answer has no id from 1 to 2^63-1")
    if not isinstance(new, bool) or not isinstance(text, (str, type(None))):
        raise _Fault("the answer is not an entry of a register")
    if not isinstance(period, (str, type(None))):
        raise _Fault("the answer has a period that is not a string")
    return Registered(id, str(id) if text is None else text, period, new)


def _read_granted(_: Request, body: dict[str, Any]) -> Meaning:
    worker, lease = body.get("worker_id"), body.get("lease")
    from_ms, until_ms = _digits(body.get("from_ms")), _digits(body.get("until_ms"))
    if not isinstance(worker, int) or isinstance(worker, bool) or not 0 <= worker < WORKERS_MAX:
        raise _Fault("the answer has no worker id")
    if not isinstance(lease, str) or not lease:
        raise _Fault("the answer has no name of a lease")
    if from_ms is None or until_ms is None or not 1 <= from_ms < until_ms < ID_END:
        raise _Fault("the answer has no milliseconds")
    return Granted(worker, lease, from_ms, until_ms)


def _read_renewed(_: Request, body: dict[str, Any]) -> Meaning:
    until_ms = _digits(body.get("until_ms"))
    if until_ms is None or until_ms >= ID_END:
        raise _Fault("the answer has no milliseconds")
    return Renewed(until_ms)


_READERS = {
    "ids": _read_ids,
    "ranges": _read_ranges,
    "register": _read_register,
    "lease": _read_granted,
    "renewal": _read_renewed,
}


def _read_refusal(request: Request, answer: Answer) -> Meaning:
    problem, body = {}, answer.body.decode(errors="replace")
    with contextlib.suppress(_Fault):
        problem, body = _object(answer.body), ""
    texts = (problem.get("code"), problem.get("detail"))
    code, detail = (text if isinstance(text, str) else "" for text in texts)
    seconds = _digits((answer.retry_after or "").strip())
    wait = None if seconds is None else float(min(seconds, RETRY_AFTER_MAX_S))
    status, refusal = answer.status, Refused(answer.status, code, detail)
    count_max = problem.get("count_max")
    if (status, code, request.kind) == (422, "count_over_rate_limit", "ranges") and (
        isinstance(count_max, int) and 1 <= count_max < request.count
    ):
        return TooMany(count_max)
    if (status, code) == (429, "rate_limited"):
        return RateLimited(refusal, 1.0 if wait is None else wait)
    if 400 <= status < 500 and status not in (408, 429) and code:
        return refusal
    # Also a refusal without a code: every refusal of a node has one, so this comes from something else.
    said = _first_line(detail or body)
    return Failed(f"answered {status}: {said}" if said else f"answered {status}", wait or 0.0)


def _first_line(text: str) -> str:
    """The first line of a text from the network, short enough for an error, and without control characters."""
    line = text.strip().partition("\n")[0][:SAID_CHARS_MAX]
    return "".join(" " if unicodedata.category(char) == "Cc" else char for char in line).strip()
