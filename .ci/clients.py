"""What .ci/clients runs: examples/edge with its servers, and clients that are not ours. Each check is one line."""

import base64
import hashlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True
EDGE = Path(__file__).parent.parent / "examples" / "edge"
sys.path.insert(0, str(EDGE))

import grpc
import servers
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

CA = EDGE / "certificates" / "ca.pem"
TRUSTED = ssl.create_default_context(cafile=CA)
SAFE = {
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305",
}


class Gateway:
    """The example, on ports that the system picks."""

    def __init__(self, binary):
        self.binary = binary
        self.server, calls, chat, pages = servers.start(0, 0, 0)
        # Beside the example's own file, for the sake of its certificates.
        text = (EDGE / "gateway.yaml").read_text()
        text = re.sub(r"127\.0\.0\.1:8(080|443)", "127.0.0.1:0", text)
        config = EDGE / "certificates" / "gateway.yaml"
        config.write_text(text.replace("certificates/server", "server") + "admin: 127.0.0.1:0\nlog: { format: json }\n")
        environment = dict(
            os.environ,
            EDGE_GRPC=f"127.0.0.1:{calls}",
            EDGE_WEBSOCKET=f"127.0.0.1:{chat}",
            EDGE_PAGES=f"127.0.0.1:{pages}",
        )
        self.process = subprocess.Popen(
            [binary, "run", "-c", config], env=environment, stderr=subprocess.PIPE, text=True
        )
        ports = []
        while len(ports) < 3:
            line = self.process.stderr.readline() or sys.exit("the gateway did not start")
            if "address" in line:
                ports.append(json.loads(line)["address"].split(":")[1])
        self.plain, self.secured, self.admin = ports
        self.name_page(config)
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def name_page(self, config):
        """Lets scripts of the page call another origin, now that the page's port is known: by a reload."""
        config.write_text(config.read_text().replace("localhost:8443", f"localhost:{self.secured}"))
        self.process.send_signal(signal.SIGHUP)
        taken = re.compile(r'^tidegate_config_reloads_total\{outcome="taken"\} 1$', re.MULTILINE)
        deadline = time.monotonic() + 30
        while not taken.search(urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics").read().decode()):
            assert time.monotonic() < deadline, "the configuration is not reread"
            time.sleep(0.05)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, **options)


def curl(gateway):
    """curl over HTTP/1.1 and HTTP/2, with TLS and without"""
    how = "%{http_version} %{http_code}"
    for flag, url, said in [
        ("--http1.1", f"http://localhost:{gateway.plain}/a", "http /a\n1.1 200"),
        ("--http2-prior-knowledge", f"http://localhost:{gateway.plain}/a", "http /a\n2 200"),
        ("--http1.1", f"https://localhost:{gateway.secured}/a", "https /a\n1.1 200"),
        ("--http2", f"https://localhost:{gateway.secured}/a", "https /a\n2 200"),
    ]:
        found = run("curl", "-sS", "-4", flag, "--cacert", CA, "-w", how, url)
        assert found.stdout == said, found
    stranger = run("curl", "-sS", "-4", f"https://localhost:{gateway.secured}/a")
    assert stranger.returncode == 60, stranger


def nghttp2(gateway):
    """nghttp, and h2load with 4 connections of 50 streams"""
    url = f"https://127.0.0.1:{gateway.secured}/a"
    found = run("nghttp", "-nv", url)
    assert ":status: 200" in found.stdout and "negotiated protocol: h2" in found.stdout, found
    found = run("h2load", "-n", "2000", "-c", "4", "-m", "50", url)
    assert "2000 succeeded, 0 failed" in found.stdout, found


def uploads(gateway):
    """curl over HTTP/1.1 and HTTP/2: small and large uploads that are refused, and each is told why"""
    config = """
listen: 127.0.0.1:0
admin: 127.0.0.1:0
log: { format: json }
limits: { few: { fixed_window: { limit: 3, window: 1h } } }
clients: [{ api_key: { keys: [{ name: a, hash: "sha256:%s" }], unknown: reject } }, { ip: {} }]
routes:
  - { path: /limited, upstream: "http://127.0.0.1:1", limits: [few] }
  - { path: /small, upstream: "http://127.0.0.1:1", max_body: 10 }
  - { path: /fetched, methods: [GET], upstream: "http://127.0.0.1:1" }
  - { path: /secure, upstream: "http://127.0.0.1:1", redirect: https }
  - { path: /dead, upstream: "http://127.0.0.1:1" }
""" % hashlib.sha256(b"key").hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "gateway.yaml").write_text(config)
        for length in UPLOADS:
            (folder / str(length)).write_bytes(b"x" * length)
        process = subprocess.Popen(
            [gateway.binary, "run", "-c", folder / "gateway.yaml"], stderr=subprocess.PIPE, text=True
        )
        try:
            lines = iter(process.stderr.readline, "")
            port = next(json.loads(line)["address"] for line in lines if "address" in line).split(":")[1]
            threading.Thread(target=lambda: [None for _ in lines], daemon=True).start()
            for length in UPLOADS:
                for flag in ("--http1.1", "--http2-prior-knowledge"):
                    for path, key, status in EARLY:
                        # Three are admitted, and find no upstream.
                        for _ in range(12 if path == "limited" else 4):
                            more = ["-H", f"X-API-Key: {key}"] if key else []
                            body = ["--data-binary", f"@{folder}/{length}"]
                            url = f"http://127.0.0.1:{port}/{path}"
                            found = run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", flag, *more, *body, url)
                            case = (flag, path, length, found)
                            assert found.returncode == 0 and found.stdout in status, case
        finally:
            process.kill()


UPLOADS = (10, 1_000, 200_000, 20_000_000)
EARLY = [
    ("limited", "", ("429", "502")),
    ("limited", "guessed", ("401",)),
    ("small", "", ("413", "502")),
    ("nothing", "", ("404",)),
    ("fetched", "", ("405",)),
    ("secure", "", ("308",)),
    ("dead", "", ("502",)),
]


def openssl(gateway):
    """openssl: TLS 1.2 and 1.3 only, and no weak suite"""

    def accepts(*options):
        address = ["-connect", f"127.0.0.1:{gateway.secured}", "-CAfile", CA]
        found = run("openssl", "s_client", *address, *options, input="")
        return "Verify return code: 0 (ok)" in found.stdout and "Cipher is (NONE)" not in found.stdout

    weak = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"
    assert accepts("-tls1_2") and accepts("-tls1_3")
    for version in ("-tls1", "-tls1_1"):
        assert not accepts(version, "-cipher", weak), version
    listed = run("openssl", "ciphers", "-tls1_2", "-s", weak).stdout.strip().split(":")
    assert len(listed) > 50, listed
    accepted = {suite for suite in listed if accepts("-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0")}
    assert accepted and accepted <= SAFE, accepted


def calls(gateway):
    """gRPC: one answer, many, and talking both ways, with TLS and without"""
    credentials = grpc.ssl_channel_credentials(CA.read_bytes())
    for channel in (
        grpc.insecure_channel(f"127.0.0.1:{gateway.plain}"),
        grpc.secure_channel(f"localhost:{gateway.secured}", credentials),
    ):
        with channel:
            time.sleep(5)  # the budget is five at once, and one a second
            assert channel.unary_unary("/demo.Echo/One")(b"hello", timeout=10) == b"hello"
            assert list(channel.unary_stream("/demo.Echo/Many")(b"x", timeout=10)) == [b"x"] * 3
            said = threading.Semaphore(1)

            def words():
                for number in range(5):
                    said.acquire()  # the next word is said when the one before has come back
                    yield str(number).encode()

            heard = []
            for word in channel.stream_stream("/demo.Echo/Chat")(words(), timeout=10):
                heard.append(word)
                said.release()
            assert heard == [b"0", b"1", b"2", b"3", b"4"], heard


def refused_calls(gateway):
    """gRPC: refused calls, their retry hint, and a client that follows it"""
    target = f"127.0.0.1:{gateway.plain}"
    with grpc.insecure_channel(target, [("grpc.enable_retries", 0)]) as channel:
        one = channel.unary_unary("/demo.Echo/One")
        for _ in range(20):
            try:
                one(b"x", timeout=10)
            except grpc.RpcError as error:
                refused = error
                break
        assert refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, refused
        assert refused.details() == "Too many requests; the next one is admitted in 1 s.", refused
        told = dict(refused.trailing_metadata() or ()) | dict(refused.initial_metadata() or ())
        assert told["grpc-retry-pushback-ms"] == "1000", told
        assert told["x-ratelimit-remaining"] == "0", told
        try:
            channel.unary_unary("/demo.Unknown/One")(b"x", timeout=10)
        except grpc.RpcError as error:
            assert error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNKNOWN), error
    retry = {
        "maxAttempts": 3,
        "initialBackoff": "0.01s",
        "maxBackoff": "0.01s",
        "backoffMultiplier": 1,
        "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
    }
    service = json.dumps({"methodConfig": [{"name": [{}], "retryPolicy": retry}]})
    with grpc.insecure_channel(target, [("grpc.service_config", service)]) as channel:
        one = channel.unary_unary("/demo.Echo/One")
        for _ in range(4):
            assert one(b"patient", timeout=10) == b"patient"


def chat(gateway):
    """WebSocket: small and large messages, pings, a close with its code"""
    for url, context in [
        (f"ws://localhost:{gateway.plain}/chat", None),
        (f"wss://localhost:{gateway.secured}/chat", TRUSTED),
    ]:
        with connect(url, ssl=context, max_size=None) as socket:
            for message in ("hello", "x" * 1_000_000, b"\0" * 1_000_000):
                socket.send(message)
                assert socket.recv(timeout=10) == message
            assert socket.ping().wait(10)
            socket.close(1000, "done")
            try:
                socket.recv(timeout=10)
            except ConnectionClosed as closed:
                assert closed.rcvd.code == 1000, closed


def refused_chat(gateway):
    """WebSocket: the switch is limited, and what is open goes on"""
    url = f"ws://localhost:{gateway.plain}/chat"
    with connect(url) as open_one:
        for _ in range(40):
            try:
                with connect(url):
                    pass
            except InvalidStatus as refused:
                assert refused.response.status_code == 429, refused
                break
        else:
            raise AssertionError("nobody was refused")
        open_one.send("still here")
        assert open_one.recv(timeout=10) == "still here"


def events(gateway):
    """server-sent events: each arrives before the next is written"""
    url = f"https://localhost:{gateway.secured}"
    with urllib.request.urlopen(f"{url}/events", context=TRUSTED, timeout=10) as stream:
        for number in (1, 2, 3):
            assert stream.readline() == f"data: {number}\n".encode()
            assert stream.readline() == b"\n"
            urllib.request.urlopen(urllib.request.Request(f"{url}/next", b""), context=TRUSTED)


def browser(gateway):
    """Chromium: a page over https, its events, WebSocket, and calls to another origin until it reads a refusal"""
    page = f"https://localhost:{gateway.secured}/"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [f"--user-data-dir={profile}", "--headless=new", "--disable-gpu", "--disable-dev-shm-usage"]
        options += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
        if os.getuid() == 0:
            options.append("--no-sandbox")  # Chromium has none for root
        stranger = run("chromium", *options, "--dump-dom", page)
        assert "ERR_CERT_AUTHORITY_INVALID" in stranger.stdout + stranger.stderr, stranger
        # The one certificate that it believes, by the hash of its public key.
        trusts = f"--ignore-certificate-errors-spki-list={pin()}"
        chromium = subprocess.Popen(
            ["chromium", *options, trusts, page], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            seen = json.loads(servers.Pages.seen.get(timeout=60))
        finally:
            chromium.terminate()
            chromium.wait(30)
    assert seen["events"] == ["1", "2", "3"], seen
    assert seen["chat"] == {"lengths": [5, 1_000_000], "code": 1000}, seen
    calls = seen["untilRefused"]
    assert isinstance(calls, dict), seen
    refused = {"status": 429, "retryAfter": "1", "remaining": "0", "error": "rate_limit_exceeded"}
    assert calls["refused"] == refused and calls["afterwards"] == 200, seen
    # Five at once, of which the preflight was one, and one a second.
    assert 4 <= calls["admitted"] < 50, seen
    assert seen["unreadable"] == "TypeError", seen


def pin():
    key = run("openssl", "x509", "-in", EDGE / "certificates" / "server.pem", "-noout", "-pubkey").stdout
    key = ssl.PEM_cert_to_DER_cert(key.replace("PUBLIC KEY", "CERTIFICATE"))
    return base64.b64encode(hashlib.sha256(key).digest()).decode()


def stop(gateway):
    """a stop: an open WebSocket is closed, and the gateway is done"""
    # The address's budget of the minute is used up; the next minute has a new one.
    time.sleep(60 - time.time() % 60)
    with connect(f"wss://localhost:{gateway.secured}/chat", ssl=TRUSTED) as socket:
        gateway.process.send_signal(signal.SIGTERM)
        try:
            socket.recv(timeout=20)
            raise AssertionError("it says something")
        except ConnectionClosed:
            pass
    assert gateway.process.wait(30) == 0


if __name__ == "__main__":
    gateway = Gateway(sys.argv[1])
    try:
        for check in (curl, uploads, nghttp2, openssl, calls, refused_calls, chat, events, browser, refused_chat, stop):
            check(gateway)
            print("ok:", check.__doc__, flush=True)
    finally:
        gateway.process.kill()
    gateway.server.stop(0)
    os._exit(0)
