"""Tests of the tests: a judge that finds nothing wrong must have been able to. No Locust, no gateway, a few seconds."""

import random
import tempfile
import unittest
from itertools import pairwise
from types import SimpleNamespace

from kit import charts, proof, records
from kit.limits import SECOND, Limit, microseconds
from kit.verdict import Rules, Verdict, judge_limits, replayed

BUCKET = Limit.of("bucket", {"token_bucket": {"capacity": 20, "refill": "10/s"}})
WINDOWS = {
    algorithm: Limit.of("window", {algorithm: {"limit": 20, "window": "2s"}})
    for algorithm in ("fixed_window", "sliding_window_log", "sliding_window_counter")
}


def run(options):
    """Runs them all; also lets a gateway check the configurations, if its binary is said."""
    tests = ["kit.selftest", "kit.selftest_experiments", "comparison.selftest", "comparison.selftest_load"]
    suite = unittest.defaultTestLoader.loadTestsFromNames(tests)
    passed = unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful()
    if passed and options.binary:
        passed = configurations_start(options)
    return 0 if passed else 1


def configurations_start(options):
    """Whether each scenario's configuration is one that the gateway takes."""
    import importlib
    import json
    import subprocess

    from comparison import gateways
    from comparison.rows import rows
    from kit.processes import Processes

    good = True
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(folder, SimpleNamespace(gateway=options.binary.resolve()))
        for name in ("fairness", "boundary", "mixed"):
            scenario = importlib.import_module(f"scenarios.{name}")
            config, _ = scenario.prepare("http://127.0.0.1:9000", processes, options)
            path = processes.folder / f"{name}.yaml"
            path.write_text(json.dumps(config), encoding="utf-8")
            good &= subprocess.run([processes.binaries.gateway, "check", "-c", path], check=False).returncode == 0
        chapter = importlib.import_module("scenarios.chapter")
        for limited in (False, True):
            path = processes.folder / "chapter.yaml"
            path.write_text(json.dumps(chapter.config("http://127.0.0.1:9000", limited)), encoding="utf-8")
            good &= subprocess.run([processes.binaries.gateway, "check", "-c", path], check=False).returncode == 0
        run = SimpleNamespace(folder=processes.folder, binaries=processes.binaries, upstream_port=9000)
        for row in rows({"redis-server": "there"})[0]:
            [*_, path], _ = gateways.tidegate(run, row.limit, 8080, 6379 if row.redis else None, **row.options)
            good &= subprocess.run([processes.binaries.gateway, "check", "-c", path], check=False).returncode == 0
    return good


def played(limit, times, delay=0):
    """What a model admits of requests at these times, as (sent, arrived)."""
    model, spans = limit.model(), []
    for now in times:
        if model.admits(now):
            model.charge(now)
            spans.append((now, now + delay))
    return spans


def traffic(seconds, rate, seed=1):
    chance = random.Random(seed)
    return sorted(chance.randrange(10**9, 10**9 + seconds * SECOND) for _ in range(seconds * rate))


class Models(unittest.TestCase):
    def test_a_bucket_admits_its_capacity_and_its_rate_to_the_request(self):
        spans = played(BUCKET, traffic(10, 500))
        self.assertEqual(len(spans), BUCKET.at_most(spans[-1][0] - spans[0][0]))
        self.assertEqual(BUCKET.longest_wait(), 1)

    def test_windows_admit_what_they_promise_around_an_edge(self):
        edge = 10**9
        burst = [edge - 1000] * 30 + [edge + 1000] * 30
        admitted = {algorithm: len(played(limit, burst)) for algorithm, limit in WINDOWS.items()}
        wanted = {"fixed_window": 40, "sliding_window_log": 20, "sliding_window_counter": 20}
        self.assertEqual(admitted, wanted)

    def test_all_limits_of_a_request_are_charged_or_none(self):
        own, shared = ({"token_bucket": {"capacity": many, "refill": "1/d"}} for many in (2, 3))
        rules = Rules({
            "limits": {"own": own, "shared": {**shared, "per": []}},
            "routes": [{"path": "/", "limits": ["own", "shared"]}],
        })
        asks = [SimpleNamespace(sent=n, client=client, address="", path="/") for n, client in enumerate("aaabbb")]
        # The third of a is not charged to the shared one, so that one of b fits in.
        self.assertEqual(replayed(rules, asks), [True, True, False, True, False, False])

    def test_durations(self):
        self.assertEqual([microseconds(text) for text in ("250ms", "2s", "1m")], [250_000, 2_000_000, 60_000_000])


class Proofs(unittest.TestCase):
    def test_what_a_model_admits_is_never_too_many_however_long_it_was_under_way(self):
        for limit in (BUCKET, *WINDOWS.values()):
            for delay in (0, 3_000, 700_000):
                spans = played(limit, traffic(20, 200), delay)
                self.assertEqual(proof.too_many(limit, spans), 0, limit.algorithm)

    def test_one_more_is_one_too_many(self):
        for limit in (BUCKET, *WINDOWS.values()):
            spans = played(limit, traffic(20, 200))
            spans.append(spans[len(spans) // 2])
            self.assertGreaterEqual(proof.too_many(limit, spans), 1, limit.algorithm)

    def test_an_outage_allows_a_quota_once_more_and_no_more(self):
        for limit in (BUCKET, *WINDOWS.values()):
            outage = (10**9, 10**9 + SECOND)
            for many, beyond in ((40, False), (41, True)):
                spans = [(10**9 + 5, 10**9 + 6)] * many
                self.assertEqual(proof.too_many(limit, spans, outage) > 0, beyond, limit.algorithm)

    def test_the_tree_finds_what_comparing_all_spans_finds(self):
        chance = random.Random(2)
        found = 0
        for _ in range(2_000):
            capacity, rate = chance.randint(1, 3), chance.randint(1, 5) * 100_000
            limit = Limit.of("any", {"token_bucket": {"capacity": capacity, "refill": f"{rate}/s"}})
            begins = [chance.randint(0, 40) for _ in range(chance.randint(1, 9))]
            spans = [(begin, begin + chance.choice([0, 1, 5, 20])) for begin in begins]
            worst = 0
            for begin, _ in spans:
                for _, end in spans:
                    inside = sum(begin <= sent and arrived <= end for sent, arrived in spans)
                    if inside:
                        worst = max(worst, inside * SECOND - rate * (end - begin) - capacity * SECOND)
            self.assertEqual(proof.too_many(limit, spans), -(-worst // SECOND))
            found += worst > 0
        self.assertTrue(100 < found < 1_900, found)


class Judges(unittest.TestCase):
    def judged(self, keep):
        """The verdict on a run of one greedy client, of whose requests `keep` says which reach the API."""
        rules = Rules({
            "limits": {"b": {"token_bucket": {"capacity": 20, "refill": "10/s"}}},
            "routes": [{"path": "/", "limits": ["b"]}],
        })
        asks = [records.Request(at, at + 50, "c", "a", "GET", "/", 0, 0) for at in traffic(10, 100)]
        fits = replayed(rules, asks)
        reached = [
            records.Arrival(ask.sent + 20, ask.sent, "c", "/", 1)
            for place, (ask, fit) in enumerate(zip(asks, fits))
            if keep(place, fit)
        ]
        verdict = Verdict()
        judge_limits(verdict, rules, asks, reached)
        return verdict.passed

    def test_an_honest_run_passes_and_more_or_clearly_less_does_not(self):
        self.assertTrue(self.judged(lambda place, fit: fit))
        self.assertFalse(self.judged(lambda place, fit: fit or place == 500))
        self.assertFalse(self.judged(lambda place, fit: fit and place % 4))
        self.assertFalse(self.judged(lambda place, fit: False))

    def test_nothing_found_is_nothing_proved(self):
        self.assertFalse(Verdict().passed)


class Figures(unittest.TestCase):
    def test_shares(self):
        values = list(range(1, 101))
        self.assertEqual([records.share(values, part) for part in (0.5, 0.95, 0.99, 1)], [50, 95, 99, 100])
        self.assertEqual((records.share([7], 0.5), records.share([], 0.5)), (7, None))

    def test_counters_of_a_metrics_page(self):
        page = 'x_total{limit="a",verdict="refused"} 3\nx_total{limit="b",verdict="refused"} 4\ny_total{limit="a"} 5\n'
        found = records.counters(page, "x_total")
        self.assertEqual(found[(("limit", "a"), ("verdict", "refused"))], 3)
        self.assertEqual(len(found), 2)
        self.assertEqual(records.counters("z_total 6\n", "z_total"), {(): 6})

    def test_names_in_a_chart_do_not_meet(self):
        lines = [(f"line {n}", "red", [(0, 10), (5, 10 + n)]) for n in range(4)]
        svg = charts.chart("title", "ms", lines)
        at = [float(part.split('y="')[1].split('"')[0]) for part in svg.split("<text") if ">line " in part]
        self.assertEqual(len(at), 4)
        self.assertTrue(all(below - above >= 16.9 for above, below in pairwise(at)), at)
