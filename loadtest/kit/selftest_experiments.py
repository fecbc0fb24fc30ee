"""Tests of the aims of `surge --chapter`, `scale` and `shares`: invented figures must fail. No Locust, no gateway."""

import copy
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import window_error
from comparison import scaling, steady
from kit import endpoints, machine
from kit.records import Arrival, Logged, Request
from kit.verdict import Verdict
from scenarios import chapter, shares

RIGHT = {
    "off": {"per_second": 790, "riders_found": 1_900, "through_ms": {"p99": 2_600}},
    "on": {
        "sent": 250_000,
        "let_through": 3_600,
        "seconds": 180,
        "riders_found": 1_800,
        "through_ms": {"p99": 60},
        "failed": 0.0,
        "probe_refused_ms": {"p99": 4},
    },
}


class Chapter(unittest.TestCase):
    def passed(self, **changed):
        """Judges right figures with some of the run with limits changed; `off_` changes the run without limits."""
        figures = copy.deepcopy(RIGHT)
        for name, value in changed.items():
            figures["off" if name.startswith("off_") else "on"][name.removeprefix("off_")] = value
        verdict = Verdict()
        chapter.judge_figures(verdict, figures, SimpleNamespace(keys=1, riders=2_000, capacity=800))
        return verdict.passed

    def test_right_figures_pass_and_each_wrong_figure_does_not(self):
        self.assertTrue(self.passed())
        for wrong in (
            {"let_through": 3_641},
            {"let_through": 3_000},
            {"riders_found": 490},
            {"off_per_second": 157.8},
            {"off_riders_found": 2_200},
            {"through_ms": {"p99": 681}, "off_through_ms": {"p99": 39_000}},
            {"off_through_ms": {"p99": 500}},
            {"failed": 0.002},
            {"probe_refused_ms": {"p99": 11}},
            {"probe_refused_ms": None},
        ):
            self.assertFalse(self.passed(**wrong), wrong)

    def test_the_published_figures_fail(self):
        found = 157.8 * (0.003 + 0.3)
        self.assertFalse(self.passed(sent=28_410, let_through=9_323))
        self.assertFalse(self.passed(riders_found=found))

    def test_the_rate_and_the_times_give_the_riders(self):
        # 100 riders, answers after 0.2 s and waits of 0.3 s: 200 requests a second.
        ridden = [Request(at, at + 200_000, "c", "a", "POST", "/", 200, 0) for at in range(0, 10_000_000, 5_000)]
        results = SimpleNamespace(riders=100, seconds=10)
        self.assertAlmostEqual(endpoints.riders_found(ridden, results), 100, delta=0.5)

    def test_refusals_are_no_failures_and_probes_are_no_riders(self):
        statuses = (200, 429, 429, 503, 0)
        ridden = [Request(n, n + 1000, "c", f"a{n % 2}", "POST", "/x", status, 0) for n, status in enumerate(statuses)]
        log = [Logged(n, status, "", None, 1000, None, "c", "x") for n, status in enumerate(statuses)]
        log.append(Logged(9, 429, "", None, 1000, None, "user_id:prober", "x"))
        run = SimpleNamespace(ridden=ridden, log=log, probed=[], arrivals=[Arrival(5, 0, "c", "/x", 1)], load=0)
        rows = [row for row in endpoints.rows("on", run, {"x": "/x"}) if row[2] == endpoints.ALL]
        self.assertEqual([(row[3], row[4], row[-1]) for row in rows], [("let through", 3, 2), ("429", 2, 0)] * 2)
        found = endpoints.of(run, SimpleNamespace(riders=2, seconds=1))
        self.assertEqual((found["let_through"], found["riders_served"], found["probe_refused_ms"]), (3, 1, None))


def points(results):
    """Fills a run of `scale` in which the gateway breaks above its top rate."""
    for store in scaling.STORES:
        for share in results.steps:
            results.curve[store, share] = [figures(share)]
        for clients in (1, 100):
            results.clients[store, clients] = [figures(0.5)]
    for many in (1, 2):
        results.gateways[many] = [figures(0.5)]
    return results


def figures(share):
    carried, p99 = min(share, 1.0) * 10_000, 5 if share <= 1 else 300
    times = {"p50_ms": 1, "p95_ms": 2, "p99_ms": p99}
    return {"offered": share * 10_000, "carried": carried, "unanswered": 0, **times, "cpu_us": 50, "redis_cpu_us": 20, "client_busy": 0.5}


class Scale(unittest.TestCase):
    def results(self):
        results = SimpleNamespace(steps=(0.25, 0.5, 0.65, 0.8, 1.0, 1.25), curve={}, clients={}, gateways={}, top={"memory": 1e4, "redis": 1e4})
        return points(results)

    def test_right_figures_pass_and_each_wrong_figure_does_not(self):
        self.assertTrue(scaling.verdict(self.results()).passed)
        for part, key, name, value in (
            ("curve", ("redis", 0.5), "carried", 4_000),
            ("curve", ("memory", 0.65), "p99_ms", 101),
            ("curve", ("memory", 0.25), "unanswered", 1),
            ("curve", ("redis", 0.25), "client_busy", 0.99),
            ("clients", ("memory", 100), "cpu_us", 76),
            ("gateways", 2, "cpu_us", 81),
        ):
            wrong = self.results()
            getattr(wrong, part)[key][0][name] = value
            self.assertFalse(scaling.verdict(wrong).passed, (part, key, name))

    def test_the_first_broken_step_is_named(self):
        results = self.results()
        self.assertEqual(scaling.breaks(results, "memory"), 1.25)
        results.curve["memory", 1.25][0] |= {"carried": 12_500, "p99_ms": 5}
        self.assertIsNone(scaling.breaks(results, "memory"))

    def test_the_report_has_each_part(self):
        results = self.results()
        results.steady, results.connections, results.rounds, results.seconds, results.load_before = 0.5, 64, 1, 5, 0.0
        results.command, results.machine, results.versions, results.cores = "loadtest/run.py scale", {}, {}, {"client": 1}
        with tempfile.TemporaryDirectory() as folder:
            page = scaling.write(results, scaling.verdict(results), Path(folder), "2026-01-01")
            text = page.read_text(encoding="utf-8")
        for part in ("redis, extreme | 125%", "More gateways on one Redis", "Core 1: client", "breaks at 125%"):
            self.assertIn(part, text)


class Parts(unittest.TestCase):
    def test_a_command_names_no_place_of_this_machine(self):
        with mock.patch.object(sys, "argv", ["/a/run.py", "scale", "--binary", "/a/b", "--results=/c", "--seconds", "3"]):
            self.assertEqual(machine.command(), "loadtest/run.py scale --seconds 3")

    def test_each_request_of_the_steady_client_names_its_client(self):
        self.assertIn(b"\r\nX-Forwarded-For: 10.0.39.15\r\n", steady.request(80, "/", 9_999))
        self.assertNotIn(b"X-Forwarded-For", steady.request(80, "/"))

    def test_different_decisions_are_counted_by_their_direction(self):
        exact, counted = {1: True, 2: False, 3: False, 4: False}, {1: False, 2: True, 3: True, 4: False}
        self.assertEqual(window_error.row("x", 20, exact, counted), "| x | 20 | 4 | 1 | 2 | 2 | 1 | 75.000% |")
        with self.assertRaises(SystemExit):
            window_error.row("x", 20, exact, {})


class Shares(unittest.TestCase):
    def test_parts_are_max_min_fair(self):
        self.assertEqual(shares.parts({"a": 10, "b": 20}, 100, {}), {"a": 10, "b": 20})
        self.assertEqual(shares.parts({"a": 10, "b": 90, "c": 90}, 100, {}), {"a": 10, "b": 45, "c": 45})
        self.assertEqual(shares.parts({"a": 90, "b": 90}, 100, {"b": 4}), {"a": 20, "b": 80})

    def judged(self, admits):
        """Judges a run of the first load in which `admits` decides by the name of the member and the number of its request."""
        row = shares.rows(20)[0]
        counts, requests = Counter(), []
        for at, number in shares.schedule(row, 25, 1):
            name = row.loads[number].name
            counts[name] += 1
            status = 200 if admits(name, counts[name], at) else 429
            requests.append(Request(at, at, f"user_id:{name}", "", "GET", "", status, 1))
        figures = shares.figures(row, requests, 25)
        figures.beyond = 0
        verdict = Verdict()
        done = SimpleNamespace(routes={"divided": figures}, statuses=Counter(request.status for request in requests))
        shares.judge(verdict, "nowhere", row, done)
        return verdict.passed

    def test_right_figures_pass_and_wrong_figures_do_not(self):
        def of_greedy(count):
            return lambda name, nth, at: name != shares.GREEDY or nth % 1000 < count

        self.assertTrue(self.judged(of_greedy(40)))
        self.assertFalse(self.judged(of_greedy(20)), "a fifth of the limit is idle")
        self.assertFalse(self.judged(lambda name, nth, at: name == shares.GREEDY and nth % 10 == 0), "the greedy one gets all")
        some = of_greedy(43)
        self.assertFalse(self.judged(lambda name, nth, at: some(name, nth, at) and (name == shares.GREEDY or nth % 20)), "5 % are refused")
