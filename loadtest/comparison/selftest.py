"""Tests of the comparison: what it finds must be what was there. No gateway, no Redis, a few seconds."""

import json
import re
import selectors
import socket
import tempfile
import threading
import time
import unittest
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

from comparison import done, gateways, programs, steady, tls
from comparison.gateways import ADMITS, OTHERS, REFUSES
from comparison.load import OTHER
from comparison.results import UNITS, Results
from comparison.rows import fitting, rows, with_other_build

ALL = {name: Path("/bin") / name for name in [*programs.PACKAGES, *programs.WHEELS, gateways.BARE]}


def found(listed=None, **changed):
    """What a run finds in which all is as it should be, but for what is changed: 'full' rows by name, and others."""
    results = Results(listed or rows(ALL)[0])
    results.connections_idle = 10_000
    for name, row in results.rows.items():
        cpu = changed.get(name.replace(" ", "_"), 12 if row.gateway not in OTHERS else 13)
        figures = {"cpu_us": cpu, "redis_cpu_us": 8 if row.redis else 0}
        figures |= {"scripts_per_request": 0, "scripts_per_second": 10, "per_second": 1000}
        results.full[name] = [{**figures, "busy": 0.9, "others": 0.0, "p50_us": 1, "p99_us": 2}] * 3
    times = {"p50_us": 1, "p99_us": 100, "p999_us": 200, "cpu_us": 1, "redis_cpu_us": 1}
    for name in ("memory admitted", "exact admitted"):
        results.half[name] = [{**times, "p99_us": changed.get("p99", 100) if name == "exact admitted" else 100}] * 3
    results.idle["memory admitted"] = [{"bytes_each": changed.get("idle", 9_000), "resident_bytes": 1}] * 3
    results.rate = 500
    return results


def wrong(**changed):
    """The sentences that are not so."""
    return [sentence for is_so, sentence in done.verdict(found(**changed)).findings if not is_so]


class Verdicts(unittest.TestCase):
    def test_all_is_well(self):
        self.assertEqual(wrong(), [])
        self.assertEqual(len(done.verdict(found()).findings), 12 + 2 * len(OTHER))

    def test_what_is_too_dear_is_found(self):
        for change, words in [
            ({"memory_admitted": 14}, "admitted in memory"),
            ({"memory_refused": 14}, "refused in memory"),
            ({"default_admitted": 15}, "admitted, the access log"),
            ({"default_refused": 15}, "refused, the access log"),
            ({"exact_refused": 14}, "refused on Redis, beside"),
            ({"exact_admitted": 20}, "admitted on Redis"),
            ({"leased_admitted": 14}, "`leased`"),
            ({"two_threads": 14}, "two threads"),
            ({"p99": 151}, "p99"),
            ({"idle": 10_300}, "idle"),
            ({"nginx_tls_1": 9}, "HTTP/1 over TLS, beside nginx"),
            ({"haproxy_tls_2": 11}, "HTTP/2 over TLS, beside HAProxy"),
            ({"haproxy_megabyte": 11}, "1 MB, beside HAProxy"),
            ({"nginx_megabyte_tls": 9}, "1 MB over TLS, beside nginx"),
            ({"nginx_handshakes": 9}, "handshakes, beside nginx"),
        ]:
            [sentence] = wrong(**change)
            self.assertIn(words, sentence)

    def test_the_work_of_redis_is_counted(self):
        results = found()
        results.full["exact refused"] = [{**results.full["exact refused"][0], "scripts_per_second": 640}]
        results.full["exact admitted"] = [{**results.full["exact admitted"][0], "redis_cpu_us": 10.1}]
        self.assertEqual(sum(not is_so for is_so, _ in done.verdict(results).findings), 2)

    def test_nothing_measured_is_nothing_shown(self):
        results = Results([])
        results.connections_idle = 1
        self.assertFalse(done.verdict(results).passed)

    def test_a_ratio_is_of_the_same_round(self):
        results = Results([])
        # A machine that grows three times slower makes both slower, and neither dearer.
        results.full = {"a": [{"cpu_us": 10}, {"cpu_us": 20}, {"cpu_us": 30}], "b": [{"cpu_us": 5}, {"cpu_us": 10}, {"cpu_us": 15}]}
        self.assertEqual(results.times("a", "b"), 2)
        self.assertIsNone(results.times("a", "c"))


def written(results):
    """The page, the chart and the figures that are written of a run."""
    facts = {"rounds": 3, "seconds": 1, "connections": 64, "idle_connections": 10_000, "versions": {}, "load_before": 0.0}
    facts["machine"] = {"processor": "one & only"}
    with tempfile.TemporaryDirectory() as folder:
        page = results.write(Path(folder), "2026-01-31", facts, done.verdict(results)).read_text(encoding="utf-8")
        chart = ElementTree.parse(Path(folder) / "2026-01-31-compare.svg").getroot()
        return page, chart, json.loads((Path(folder) / "2026-01-31-compare.json").read_text(encoding="utf-8"))


class Written(unittest.TestCase):
    def test_the_report_has_every_row_and_its_chart_is_one(self):
        results = found()
        page, chart, kept = written(results)
        for name, row in results.rows.items():
            self.assertIn(row.label, page)
            self.assertIn(name, kept["rounds"]["full"])
        bars = [box for box in chart.iter("{http://www.w3.org/2000/svg}rect") if box.get("height") == "18"]
        self.assertEqual(len(bars), 2 * sum(row.group not in UNITS for row in results.rows.values()))
        self.assertEqual((page.count("| MB/s |"), page.count("| handshakes/s |")), (2, 1))
        self.assertNotIn("another", page)

    def test_another_build_stands_beside_this_one(self):
        page, _, _ = written(found(list(with_other_build(rows(ALL)[0])), memory_refused_against=16))
        self.assertIn("| memory refused | 12.00 | 16.00 | 0.750 |", page)
        self.assertIn("| exact admitted | 12.00 | 12.00 | 1.000 |", page)
        self.assertNotIn("| nginx admitted | 13.00", page)

    def test_a_row_that_is_chosen_by_its_name_has_its_other_build(self):
        chosen = with_other_build(fitting(rows(ALL)[0], ["memory refused", "nginx ad*"]))
        self.assertEqual([row.name for row in chosen], ["nginx admitted", "memory refused", "memory refused against"])

    def test_a_build_is_named_by_what_is_in_its_file(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"abc")
            file.flush()
            self.assertEqual(programs.build(file.name), "SHA-256 ba7816bf8f01…")

    def test_what_is_missing_leaves_its_rows_out(self):
        there, left_out = rows({name: path for name, path in ALL.items() if name != "redis-server"})
        self.assertFalse(any(row.redis for row in there))
        self.assertEqual(len(there) + len(left_out), len(rows(ALL)[0]))
        self.assertEqual(len(left_out), 11)
        for missing, groups in {"h2load": {"tls 2"}, "openssl": {group for group, traffic in OTHER.items() if traffic.tls}}.items():
            there, _ = rows({name: path for name, path in ALL.items() if name != missing})
            self.assertEqual({row.group for row in rows(ALL)[0]} - {row.group for row in there}, groups)

    def test_no_place_in_a_template_stays_empty(self):
        with tempfile.TemporaryDirectory() as folder:
            run = SimpleNamespace(folder=Path(folder), programs=ALL, upstream_port=9000, tls=tls.files(folder))
            run.binaries = SimpleNamespace(gateway=Path("tidegate"))
            for limit in (ADMITS, REFUSES):
                for gateway in OTHERS.values():
                    gateway.start(run, limit, 8000, 6379 if gateway.redis else None)
                for row in rows(ALL)[0]:
                    options = {**row.options, "tls": run.tls} if row.traffic.tls else row.options
                    if row.gateway in OTHERS:
                        OTHERS[row.gateway].start(run, limit, 8001, 6379, **options)
                    elif row.traffic.tls:
                        gateways.tidegate(run, limit, 8001, None, **options)
                    if row.traffic.tls:
                        # Each gateway's own file names the certificate, and this one is written anew for each.
                        told = [file.read_text(encoding="utf-8") for file in run.folder.glob("*8001*")]
                        self.assertTrue(any(str(run.tls.certificate) in text or str(run.tls.both) in text for text in told), row.name)
            for file in run.folder.iterdir():
                self.assertFalse(re.search(r"\{\{\w+\}\}", file.read_text(encoding="utf-8")), file.name)


class Steady(unittest.TestCase):
    def test_who_comes_while_the_gateway_stalls_has_waited(self):
        # 200 a second for two seconds on four connections; half a second of the one that counts is silence. A client that
        # waits for its answers would send four requests meanwhile; this one must tell of nearly a hundred.
        server = Stalling(at=1.2, for_seconds=0.5)
        sockets = [steady.connected(server.port) for _ in range(4)]
        server.begin()
        times, refused = steady.ride([number / 200 for number in range(400)], [b"GET / HTTP/1.1\r\n\r\n"], sockets)
        server.end(sockets)
        self.assertEqual((len(times), refused), (200, 0))
        self.assertGreater(sum(1 for took in times if took > 0.1), 60)

    def test_where_an_answer_ends(self):
        self.assertFalse(steady.whole(b"HTTP/1.1 200 OK\r\n"))
        self.assertFalse(steady.whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na"))
        self.assertTrue(steady.whole(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"))
        self.assertFalse(steady.whole(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"))
        self.assertTrue(steady.whole(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"))


class Stalling:
    """A server that answers at once, but for one span of time in which it does nothing at all."""

    def __init__(self, at, for_seconds):
        self.at, self.for_seconds = at, for_seconds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = True

    def begin(self):
        self.thread = threading.Thread(target=self.serve, args=(time.monotonic(),), daemon=True)
        self.thread.start()

    def serve(self, start):
        chosen, stalled = selectors.DefaultSelector(), False
        chosen.register(self.listener, selectors.EVENT_READ)
        while self.open:
            for ready, _ in chosen.select(0.05):
                if ready.fileobj is self.listener:
                    chosen.register(self.listener.accept()[0], selectors.EVENT_READ)
                    continue
                if not stalled and time.monotonic() > start + self.at:
                    time.sleep(self.for_seconds)
                    stalled = True
                if ready.fileobj.recv(4096):
                    ready.fileobj.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                else:
                    chosen.unregister(ready.fileobj)
                    ready.fileobj.close()
        self.listener.close()

    def end(self, sockets):
        self.open = False
        for one in sockets:
            one.close()
        self.thread.join()
