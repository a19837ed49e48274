"""The rules of lines, sizes, endpoints and answers, without a network, at times that the tests choose."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import random
import tempfile
import threading
import unittest
import unittest.mock

import mintleaf
from mintleaf import _wire as wire
from mintleaf._endpoints import Endpoints
from mintleaf._http import Address, Fault, Token, within
from mintleaf._line import CALLS_MAX, Call, Line, Order, Rules, Sizing, Step
from mintleaf._worker import EPOCH_MS, REFUSED_REST_S, Held, Terms

RULES = Rules(first=100, min=10, max=1_000_000, lasts=10.0)


def sizes(rules: Rules, *lasted_and_used: tuple) -> list:
    sizing, now = Sizing(rules), 77.0
    found = [sizing.next(now, 0, 0)]
    for lasted, used in lasted_and_used:
        now += lasted
        found.append(sizing.next(now, used, 0))
    return found


class Waits(unittest.TestCase):
    def setUp(self) -> None:
        self.reported: list = []

    def run_cancelled(self, turns: int) -> asyncio.Task:
        """A task that waits for work, cancelled after these turns of the event loop. Cancelled work fails otherwise."""

        async def work() -> None:
            try:
                for _ in range(5):
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                raise Fault("the connection broke off") from None

        async def main() -> asyncio.Task:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: self.reported.append(context))
            waiting = asyncio.ensure_future(within(60, work()))
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            gc.collect()
            return waiting

        return asyncio.run(main())

    def test_a_cancellation_is_not_lost_beside_the_end_of_the_work(self) -> None:
        ended = [self.run_cancelled(turns) for turns in range(1, 12)]
        self.assertTrue(all(waiting.cancelled() for waiting in ended[:6]), ended)
        self.assertFalse(ended[-1].cancelled())

    def test_a_failure_that_comes_with_a_cancellation_is_not_reported(self) -> None:
        self.assertTrue(self.run_cancelled(3).cancelled())
        self.assertEqual(self.reported, [])


class Sizes(unittest.TestCase):
    def test_sizes_follow_use(self) -> None:
        self.assertEqual(sizes(RULES, (1, 30), (5, 150), (5, 150)), [100, 300, 300, 300])
        burst = [(0, 50), (0.001, 400), (0.001, 1_600), (0.001, 6_400)]
        self.assertEqual(sizes(RULES, *burst), [100, 400, 1_600, 6_400, 25_600])
        self.assertEqual(sizes(RULES, (60, 50), (60, 13), (3_600, 5)), [100, 25, 10, 10])
        self.assertEqual(sizes(Rules(100, 10, 5, 10.0), *burst)[:2], [5, 5])

    def test_what_calls_wait_for_is_added_to_one_lease_only(self) -> None:
        sizing = Sizing(RULES)
        self.assertEqual(sizing.next(0, 0, 5_000), 5_100)
        self.assertEqual(sizing.next(10, 200, 0), 200)

    def test_a_rate_limit_halves_the_next_size(self) -> None:
        sizing = Sizing(RULES)
        sizing.next(0, 0, 0)
        sizing.halve()
        self.assertEqual(sizing.next(0.001, 10_000, 0), 200)


class Lines(unittest.TestCase):
    def setUp(self) -> None:
        self.line = Line(Rules(first=100, min=10, max=1_000_000, lasts=10.0, is_leased=True))
        self.replies: list = []

    def want(self, count: int, now: float = 0.0, deadline: float = 10.0) -> Step:
        step = self.line.want(Call(count, deadline, lambda _: None), now)
        self.replies += [result for _, result in step.replies]
        return step

    def land(self, *ranges: range, now: float = 0.0) -> Step:
        step = self.line.landed(list(ranges), now)
        self.replies += [result for _, result in step.replies]
        return step

    def test_calls_are_served_in_their_order_by_one_flight(self) -> None:
        self.assertEqual(self.want(30).flight, Order(130, True, 10.0))
        self.assertIsNone(self.want(2).flight)
        self.land(range(1, 21), range(50, 70))
        self.assertEqual(self.replies, [[*range(1, 21), *range(50, 60)], [60, 61]])

    def test_the_next_lease_is_asked_for_when_half_is_used(self) -> None:
        self.want(1)
        self.land(range(1, 102))
        orders, ids = [], []
        for count in range(2, 60):
            step = Step()
            id = next(self.line.chunk, None)
            ids.append(self.line.take(1, 1.0, step, True)[0] if id is None else id)
            if step.flight:
                orders.append(count)
        self.assertEqual(ids, list(range(2, 60)))
        self.assertEqual(orders, [51])

    def test_threads_share_a_lease_without_an_id_twice_or_left_out(self) -> None:
        total, lock, got = 200_000, threading.Lock(), [[] for _ in range(8)]
        self.want(1)
        self.land(range(1, total + 1))

        def take(mine: list) -> None:
            while True:
                id = next(self.line.chunk, None)
                if id is None:
                    with lock:
                        taken = self.line.take(1 + len(mine) % 3, 1.0, Step(), len(mine) % 2 == 0)
                    if not taken:
                        return
                    mine += taken
                else:
                    mine.append(id)

        threads = [threading.Thread(target=take, args=(mine,)) for mine in got]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(id for mine in got for id in mine), list(range(2, total + 1)))

    def test_threads_share_a_lease_where_there_is_no_interpreter_lock(self) -> None:
        with unittest.mock.patch("mintleaf._line._is_free_threaded", lambda: True):
            self.test_threads_share_a_lease_without_an_id_twice_or_left_out()

    def test_after_a_refusal_the_next_lease_waits_for_half_of_the_rest(self) -> None:
        self.want(1)
        self.land(range(1, 102))
        step = Step()
        self.line.take(50, 1.0, step, False)
        self.assertIsNotNone(step.flight)
        self.assertIsNone(self.line.refused(mintleaf.Refused(423, "frozen", ""), 1.0).flight)
        for count, asks in ((24, False), (1, True)):
            step = Step()
            self.line.take(count, 1.0, step, False)
            self.assertEqual(step.flight is not None, asks)

    def test_old_snowflakes_are_thrown_away(self) -> None:
        self.line = Line(Rules(1, 1, 100_000, 0.5, fresh_for=1.0, is_leased=True))
        self.want(1)
        self.land(range(1, 10), now=5.0)
        self.assertEqual(self.line.take(1, 5.9, Step(), True), [2])
        self.assertEqual(self.line.stale_at, 6.0)
        self.assertEqual(self.line.take(1, 6.0, Step(), True), [])

    def test_a_closed_line_hands_out_nothing(self) -> None:
        self.want(1)
        self.land(range(1, 102))
        self.line.take(1, 0.0, Step(), True)
        self.line.close()
        self.assertIsNone(next(self.line.chunk, None))
        self.assertEqual(self.line.take(1, 0.0, Step(), True), [])
        self.want(1)
        self.assertIsInstance(self.replies[-1], mintleaf.Closed)

    def test_calls_beyond_the_most_are_refused_as_overloaded(self) -> None:
        for _ in range(CALLS_MAX):
            self.want(1)
        self.assertEqual(self.replies, [])
        self.want(1)
        self.assertIsInstance(self.replies[0], mintleaf.Overloaded)


class Rests(unittest.TestCase):
    def test_rests_grow_and_end(self) -> None:
        for seed in range(50):
            endpoints, now = Endpoints(1, random.Random(seed)), 1.0
            for longest in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0):
                endpoints.failed(0, now)
                rest = endpoints.pick(now)[1] - now
                self.assertTrue(longest / 2 - 1e-9 <= rest <= longest + 1e-9, f"seed {seed}: {rest} of {longest}")
                now += rest
            endpoints.answered(0)
            endpoints.failed(0, now)
            self.assertLessEqual(endpoints.pick(now)[1] - now, 0.05 + 1e-9)

    def test_own_zone_first(self) -> None:
        for seed in range(50):
            endpoints = Endpoints(3, random.Random(seed))
            endpoints.set_in_zone(2, True)
            self.assertEqual(endpoints.pick(0)[0], 2)
            endpoints.failed(2, 0)
            self.assertNotEqual(endpoints.pick(0.001)[0], 2)
            self.assertEqual(endpoints.pick(0.05)[0], 2)


class EndOfTest(Exception):
    pass


class WorkerLeases(unittest.TestCase):
    def renew(self, *outcomes: object) -> Held:
        """A lease of 60 s, whose renewals have these outcomes in turn. The one after them ends the task."""
        self.asked: list = []
        self.slept: list = []
        self.logged: list = []
        left = list(outcomes)

        async def ask(request: wire.Request, deadline: float) -> object:
            if not left:
                raise EndOfTest
            self.asked.append(request.method)
            return left.pop(0)

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)

        engine = unittest.mock.Mock()
        engine.now.return_value, engine.ask, engine.leases = 0.0, ask, set()
        engine.settings.attempt_timeout = 2.5
        engine.settings.logger.warning = lambda text, *of: self.logged.append(text % of)
        held = Held(engine, Terms("shops", 60, "me"), wire.Granted(7, "7-secret", 1_000, 61_000))

        with contextlib.suppress(EndOfTest), unittest.mock.patch("asyncio.sleep", sleep):
            asyncio.run(held._renew())
        return held

    def held(self) -> Held:
        engine = unittest.mock.Mock()
        engine.now.return_value = 0.0
        return Held(engine, Terms("shops", 60, "me"), wire.Granted(7, "7-secret", 1_800_000_000_000, 1_800_000_060_000))

    def test_a_lease_shows_its_face_and_not_its_name(self) -> None:
        held = self.held()
        for lease in (mintleaf.WorkerLease(held, lambda _: None), mintleaf.AsyncWorkerLease(held)):
            shown = {name for name in dir(lease) if not name.startswith("_")}
            documented = {"pool", "worker_id", "from_ms", "until_ms", "is_lost", "is_closed", "may_stamp"}
            self.assertEqual(shown, {*documented, "generator", "close"})
            self.assertEqual((lease.is_lost, lease.is_closed), (False, False))
            end = "(pool='shops', worker_id=7, until_ms=1800000060000)"
            self.assertEqual(repr(lease), type(lease).__name__ + end)
        held.refuse()
        self.assertTrue(lease.is_closed)

    def test_a_lease_has_one_generator_in_one_layout(self) -> None:
        held = self.held()
        self.assertRaises(mintleaf.InvalidArgument, held.snowflakes, EPOCH_MS, 2, 12)
        self.assertTrue(held.may_stamp(1_800_000_000_000), "it has no generator yet")
        made = held.snowflakes(EPOCH_MS, 10, 12)
        self.assertIs(held.snowflakes(EPOCH_MS, 10, 12), made)
        with self.assertRaisesRegex(mintleaf.InvalidArgument, "another layout"):
            held.snowflakes(0, 10, 12)

    def test_threads_that_ask_for_the_generator_get_the_same_and_stamp_nothing_beside_it(self) -> None:
        held, made, stamped = self.held(), [], []
        start = threading.Barrier(9)

        def ask() -> None:
            start.wait()
            made.append(held.snowflakes(EPOCH_MS, 10, 12))

        def stamp() -> None:
            start.wait()
            last, ms = 0, held.from_ms
            while held.may_stamp(ms):
                # The generator has milliseconds left, however late it is made.
                last, ms = ms, min(ms + 1, held.from_ms + 50_000)
            stamped.append(last)

        threads = [threading.Thread(target=what) for what in [ask] * 4 + [stamp] * 4]
        for thread in threads:
            thread.start()
        start.wait()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(made)), 1)
        self.assertGreater((made[0].take() >> 22) + EPOCH_MS, max(stamped))

    def test_a_refusal_other_than_404_and_409_is_asked_again_and_loses_no_lease(self) -> None:
        refusal = mintleaf.Refused(401, "unauthenticated", "the token is unknown")
        held = self.renew(refusal, wire.Renewed(121_000))
        self.assertFalse(held.is_lost)
        self.assertEqual(held.until_ms, 121_000)
        self.assertEqual(self.slept, [30, REFUSED_REST_S, 30])

    def test_a_lost_lease_is_not_given_back_and_the_log_has_the_reason(self) -> None:
        held = self.renew(mintleaf.Refused(409, "conflict", "the lease is over"))
        self.assertTrue(held.is_lost)
        why = "the node refused (409 conflict): the lease is over"
        self.assertEqual(self.logged, [f"worker id 7 of pool shops is lost: {why}"])
        asyncio.run(held.end())
        self.assertEqual(self.asked, ["POST"])


class Answers(unittest.TestCase):
    def test_a_zone_is_known_from_an_answer_about_the_node_itself_only(self) -> None:
        for body, is_in_zone in (
            ('{"node_id":2,"nodes":[{"id":1,"zone":"a"},{"id":2,"zone":"b"}]}', True),
            ('{"node_id":1,"nodes":[{"id":1,"zone":"a"},{"id":2,"zone":"b"}]}', False),
            ('{"node_id":2,"nodes":[{"id":2}]}', False),
            ('{"node_id":3,"nodes":[{"id":2,"zone":"b"}]}', None),
            ("{}", None),
            ("<html>", None),
        ):
            self.assertIs(wire.is_in_zone(wire.Answer(200, None, body.encode()), "b"), is_in_zone, body)

    def test_ranges_of_a_malformed_answer_are_not_used(self) -> None:
        request = wire.segment("a", 10, True)
        for ranges in (
            [("1", "10")],
            [("1", "12")],
            [("5", "15"), ("1", "1")],
            [("0", "10")],
            [("10", "0")],
            [("1", "6"), ("5", "10")],
            [("+1", "11")],
            [(1, 11)],
            [("1", str((1 << 63) + 1))],
            [],
        ):
            body = {"ranges": [{"start": start, "end": end} for start, end in ranges]}
            meaning = wire.read(request, wire.Answer(200, None, json.dumps(body).encode()))
            self.assertIsInstance(meaning, wire.Failed, ranges)
        last = {"ranges": [{"start": str((1 << 63) - 10), "end": str(1 << 63)}]}
        self.assertIsInstance(wire.read(request, wire.Answer(200, None, json.dumps(last).encode())), wire.Lease)

    def test_what_is_wrong_with_a_malformed_answer_is_named(self) -> None:
        ids, ranges, register = wire.segment("a", 1, False), wire.segment("a", 1, True), wire.register("a", "k")
        for request, body, why in (
            (ids, b"<html>", "is not JSON"),
            (ids, b"[]", "is not a JSON object"),
            (ids, b'{"ids":["x"]}', "has an id that is not a number from 1 to 2^63-1"),
            (ranges, b'{"ranges":[{"start":"2","end":"1"}]}', "has a range that is malformed or out of bounds"),
            (register, b'{"id":"1"}', "is not an entry of a register"),
        ):
            self.assertEqual(wire.read(request, wire.Answer(200, None, body)), wire.Failed(f"the answer {why}"))

    def test_what_is_no_node_is_told_with_its_status_and_a_short_first_line(self) -> None:
        for status, body, why in (
            (404, "\r\n\aone\ttwo\r\nthree", "answered 404: one two"),
            (403, "é" * 100_000, "answered 403: " + "é" * 200),
            (422, '{"count_max":1}', "answered 422"),
            (409, '{"code":"","detail":"why"}', "answered 409: why"),
            (500, "", "answered 500"),
        ):
            meaning = wire.read(wire.segment("a", 1, False), wire.Answer(status, None, body.encode()))
            self.assertEqual(meaning, wire.Failed(why))

    def test_arguments_out_of_bounds_reach_no_node(self) -> None:
        with mintleaf.Client(["http://127.0.0.1:9"]) as client:
            for call in (
                lambda: client.next_id(""),
                lambda: client.next_id("x" * 129),
                lambda: client.next_id("a\nb"),
                lambda: client.next_ids("a", 0),
                lambda: client.next_ids("a", 10_001),
                lambda: client.next_ids("a", True),
                lambda: client.next_number("a", "ü" * 129),
                lambda: client.lease_worker("p", seconds=4),
            ):
                self.assertRaises(mintleaf.InvalidArgument, call)
            self.assertEqual(client.stats()["requests"], 0)

    def test_settings_out_of_bounds_are_refused(self) -> None:
        for settings in (
            {"endpoints": []},
            {"endpoints": "http://a:1"},
            {"endpoints": ["a:1"]},
            {"endpoints": ["http://a"], "timeout": 0},
            {"endpoints": ["http://a"], "lease_max": 0},
            {"endpoints": ["http://a"], "token": "a b"},
        ):
            self.assertRaises(mintleaf.InvalidArgument, mintleaf.Client, **settings)
        self.assertEqual(Address.parse("https://[::1]:8443"), Address("::1", 8_443, True, "[::1]:8443"))

    def test_what_is_wrong_with_an_option_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            empty = os.path.join(directory, "empty")
            with open(empty, "w"):
                pass
            missing = os.path.join(directory, "missing")
            good = {"endpoints": ["http://a:1"]}
            for wrong, error, *told in (
                ({**good, "timeot": 3}, TypeError, "'timeot'", "timeout", "token_file"),
                ({"endpoints": "http://a:1"}, mintleaf.InvalidArgument, "must be a list", "'http://a:1'"),
                ({**good, "token_file": missing}, mintleaf.InvalidArgument, "token_file", missing, "No such file"),
                ({**good, "token_file": directory}, mintleaf.InvalidArgument, "token_file", directory),
                ({**good, "token_file": empty}, mintleaf.InvalidArgument, "token_file", empty, "visible"),
                ({**good, "token_file": 3}, mintleaf.InvalidArgument, "token_file", "not 3"),
                ({"endpoints": ["https://a:1"], "ca_file": missing}, mintleaf.InvalidArgument, "ca_file", missing),
            ):
                for face in (mintleaf.Client, mintleaf.AsyncClient):
                    with self.assertRaises(error) as met:
                        face(**wrong)
                    for text in told:
                        self.assertIn(text, str(met.exception))

    def test_a_token_file_is_read_again_when_it_changes(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "token")
            for text in ("first", "second-one"):
                with open(path, "w") as file:
                    file.write(text + "\n")
                if text == "first":
                    token = Token(None, path)
                self.assertEqual(token.latest(), text)
            os.remove(path)
            self.assertEqual(token.latest(), "second-one")


if __name__ == "__main__":
    unittest.main()
