"""Tests of the load: the counts of a client must be those of its server. A few seconds; one test needs openssl."""

import shutil
import socket
import ssl
import tempfile
import threading
import unittest
from types import SimpleNamespace

from comparison import handshakes, measure, tls
from comparison.gateways import ADMITS, REFUSES
from comparison.load import OTHER, SMALL, h2load_found
from kit.processes import Trouble

SAID = """\
finished in 1.50s, {succeeded}.00 req/s, 1.96MB/s
requests: 130 total, 140 started, 130 done, {succeeded} succeeded, {failed} failed, {errored} errored, {timeouts} timeout
status codes: {codes}
traffic: 1.96MB (2051582) total, 1.32MB (1386720) headers (space savings 51.02%), 141.06KB (144450) data
"""
LOG = "".join(f"1795660644450638\t200\t{1000 - number}\n" for number in range(100))
SMALL_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"


def by_h2load(codes="100 2xx, 0 3xx, 0 4xx, 0 5xx", succeeded=100, failed=0, errored=0, timeouts=0):
    said = SAID.format(codes=codes, succeeded=succeeded, failed=failed, errored=errored, timeouts=timeouts)
    return h2load_found(said, LOG)


def row(traffic=SMALL, limit=ADMITS):
    return SimpleNamespace(name="a row", traffic=traffic, limit=limit)


class Found(unittest.TestCase):
    def test_the_words_of_h2load_are_read(self):
        found = by_h2load()
        self.assertEqual(found, {"requests": 100, "microseconds": 1_500_000, "refused": 0, "broken": 0, "p50": 951, "p99": 1000})

    def test_an_answer_that_is_no_200_is_a_refusal(self):
        found = by_h2load("90 2xx, 10 3xx, 5 4xx, 2 5xx", succeeded=100, failed=7)
        self.assertEqual((found["requests"], found["refused"], found["broken"]), (107, 17, 0))

    def test_requests_without_an_answer_are_broken(self):
        self.assertEqual(by_h2load(failed=3, errored=3, timeouts=2)["broken"], 5)

    def test_other_words_are_no_figure(self):
        with self.assertRaisesRegex(Trouble, "no line of h2load has finished"):
            h2load_found("could not connect\n", "")


class Judged(unittest.TestCase):
    RIGHT = {"requests": 1_000, "refused": 0, "broken": 0, "bytes": 1_000_300_000}

    def wrong(self, traffic=SMALL, limit=ADMITS, **changed):
        with self.assertRaises(Trouble):
            measure.judge(row(traffic, limit), {**self.RIGHT, **changed}, 5)

    def test_right_answers_pass(self):
        for traffic in (SMALL, *OTHER.values()):
            measure.judge(row(traffic), self.RIGHT, 5)
        measure.judge(row(limit=REFUSES), {**self.RIGHT, "refused": 900}, 5)

    def test_wrong_answers_do_not(self):
        for traffic in (SMALL, *OTHER.values()):
            self.wrong(traffic, refused=2)
            self.wrong(traffic, broken=1)
            self.wrong(traffic, requests=0)
        self.wrong(limit=REFUSES)

    def test_a_cut_answer_of_a_megabyte_is_wrong(self):
        self.wrong(OTHER["megabyte"], bytes=999_000_000)

    def test_large_answers_count_by_their_parts(self):
        told = {**self.RIGHT, "bytes": 1_004_000_000}
        self.assertEqual(measure.answers(row(OTHER["megabyte"]), told), 1_004)
        self.assertEqual(measure.answers(row(), told), 1_000)


class Handshakes(unittest.TestCase):
    def test_an_answer_must_be_whole(self):
        self.assertEqual(handshakes.status(SMALL_ANSWER), 200)
        self.assertEqual(handshakes.status(b"HTTP/1.1 429 No\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"), 429)
        for cut in (b"", b"HTTP/1.1 200 OK\r\n", SMALL_ANSWER[:-1], b"HTTP/1.1 200 OK\r\n\r\n1\r\na\r\n"):
            with self.assertRaises(OSError):
                handshakes.status(cut)

    @unittest.skipUnless(shutil.which("openssl"), "openssl makes the certificate")
    def test_each_request_has_a_connection_and_a_full_handshake(self):
        with tempfile.TemporaryDirectory() as folder:
            made = tls.files(folder)
            tls.make(shutil.which("openssl"), made)
            for answer, refused, broken in [(SMALL_ANSWER, 0, 0), (SMALL_ANSWER.replace(b"200", b"429"), 1, 0), (SMALL_ANSWER[:-1], 0, 1)]:
                server = Resuming(made, answer)
                found = handshakes.load(server.port, "/", 0.3, 2, str(made.certificate))
                accepted, resumed = server.end()
                self.assertGreater(accepted, 0)
                self.assertEqual((found["requests"] + found["broken"], resumed), (accepted, 0))
                self.assertEqual((found["refused"], found["broken"]), (refused * accepted, broken * accepted))
                self.assertTrue({version for version, _ in found["offers"]} <= {tls.VERSION})


class Resuming:
    """A server that resumes sessions if its clients offer them, and answers one request of each connection."""

    def __init__(self, made, answer):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(made.certificate, made.key)
        self.answer, self.accepted, self.resumed = answer, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            plain, _ = self.listener.accept()
            try:
                with self.context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(4096)
                    self.accepted += 1
                    self.resumed += connection.session_reused
                    connection.sendall(self.answer)
            except OSError:
                return  # `end` connects without a handshake

    def end(self):
        socket.create_connection(("127.0.0.1", self.port)).close()
        self.thread.join()
        self.listener.close()
        return self.accepted, self.resumed
