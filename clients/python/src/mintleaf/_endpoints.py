"""Which endpoint is asked next. An endpoint that has failed rests for a while. All times are in seconds."""

from __future__ import annotations

import random
from dataclasses import dataclass

#: The rest after the first failure since an answer.
REST_MIN_S = 0.05
#: The longest rest.
REST_MAX_S = 5.0


@dataclass
class _Endpoint:
    number: int
    is_in_zone: bool = False
    failures: int = 0
    rests_until: float = 0.0


class Endpoints:
    """The endpoints of a client, numbered by their place in its settings."""

    def __init__(self, count: int, chance: random.Random) -> None:
        self._chance = chance
        self._all = [_Endpoint(number) for number in range(count)]
        self._order = chance.sample(self._all, count)

    def pick(self, now: float) -> tuple[int, float]:
        """The endpoint to ask, and the end of its rest."""
        for endpoint in self._order:
            if endpoint.rests_until <= now:
                return endpoint.number, endpoint.rests_until
        first = min(self._order, key=lambda endpoint: endpoint.rests_until)
        return first.number, first.rests_until

    def failed(self, number: int, now: float, asked_for: float = 0.0) -> int:
        """An endpoint failed; `asked_for` is the rest that its answer wanted. Returns its failures in a row."""
        endpoint = self._all[number]
        rest = min(REST_MIN_S * 2 ** min(endpoint.failures, 16), REST_MAX_S)
        rest = max(rest * self._chance.uniform(0.5, 1.0), min(asked_for, REST_MAX_S))
        endpoint.failures += 1
        endpoint.rests_until = max(endpoint.rests_until, now + rest)
        return endpoint.failures

    def answered(self, number: int) -> bool:
        """An endpoint answered. Returns whether this ends a row of failures."""
        was_failing = self._all[number].failures > 0
        self._all[number].failures = 0
        return was_failing

    def set_in_zone(self, number: int, is_in_zone: bool) -> None:
        """Endpoints in the client's zone are asked before all others."""
        self._all[number].is_in_zone = is_in_zone
        self._order.sort(key=lambda endpoint: not endpoint.is_in_zone)

    def about(self, period: float) -> float:
        """`period`, varied by up to a tenth either way."""
        return period * self._chance.uniform(0.9, 1.1)
