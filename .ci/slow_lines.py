#!/usr/bin/env python3
"""Downloads over slow lines: curl in network namespaces of its own, each with a line of tc's tbf, through one gateway.

    .ci/slow_lines.py BINARY                 a short run: two minutes
    .ci/slow_lines.py BINARY --tries 50      every rate and protocol fifty times at once: a quarter of an hour

It needs root, iproute2 and curl. Where namespaces cannot be had, it prints that it is skipped. The short run also checks clients that
read slowly, that pause, and that are gone. All addresses are within the namespaces.
"""

import argparse
import collections
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NAME = f"tidegate{os.getpid()}"
# The queue of a line, and what it lets pass at once, in bytes.
QUEUE, BURST = 60_000, 3_200
PORT, SECURED = 8080, 8443
PROTOCOLS = {
    "HTTP/1": ("--http1.1", f"http://{{}}:{PORT}"),
    "HTTP/2": ("--http2-prior-knowledge", f"http://{{}}:{PORT}"),
    "HTTP/1 over TLS": ("--http1.1", f"https://{{}}:{SECURED}"),
    "HTTP/2 over TLS": ("--http2", f"https://{{}}:{SECURED}"),
}

CONFIGURATION = """
listen:
  - 0.0.0.0:%d
  - { address: "0.0.0.0:%d", tls: { cert: own.pem, key: own.key } }
admin: 127.0.0.1:9901
log: { format: json }
routes:
  # A client on a steady line is never behind for long.
  - { path: "/steady/{bytes}", upstream: "http://127.0.0.1:PORT", timeouts: { slow: { after: SLOW } } }
  - { path: /**, upstream: "http://127.0.0.1:PORT" }
""" % (PORT, SECURED)


class Api(BaseHTTPRequestHandler):
    """Answers with as many bytes as the path ends with, or with an event a second until nobody listens."""

    protocol_version = "HTTP/1.1"
    # The end of each stream of events, by its path.
    ended = collections.defaultdict(threading.Event)

    def do_GET(self):
        if "events" in self.path:
            return self.events()
        size = int(self.path.rsplit("/", 1)[1])
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        part = b"x" * 65_536
        while size > 0:
            self.wfile.write(part[:size])
            size -= len(part)

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"data: x\n\n")
                time.sleep(1)
        except OSError:
            Api.ended[self.path].set()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_):
        pass


def run(command, **options):
    return subprocess.run(command.split(), check=True, capture_output=True, text=True, **options)


def inside(namespace, command):
    return ["ip", "netns", "exec", namespace, *command]


class Line:
    """A namespace for one client, and its line to the gateway's."""

    made = 0
    lock = threading.Lock()

    def __init__(self, rate):
        with Line.lock:
            Line.made += 1
            number = Line.made
        self.namespace, self.device = f"{NAME}-{number}", f"line{number}"
        network = f"10.{number >> 8}.{number & 255}"
        self.gateway = f"{network}.1"
        run(f"ip netns add {self.namespace}")
        run(f"ip link add {self.device} netns {NAME} type veth peer name line netns {self.namespace}")
        for namespace, device, host in [(NAME, self.device, 1), (self.namespace, "line", 2)]:
            run(f"ip -n {namespace} address add {network}.{host}/24 dev {device}")
            run(f"ip -n {namespace} link set {device} up")
        run(f"tc -n {NAME} qdisc add dev {self.device} root tbf rate {rate}kbit burst {BURST} limit {QUEUE}")

    def curl(self, protocol, path, *more):
        flag, address = PROTOCOLS[protocol]
        url = address.format(self.gateway) + path
        command = ["curl", "-sSk", flag, "-o", "/dev/null", "-w", "%{http_code} %{size_download}", *more, url]
        return subprocess.Popen(
            inside(self.namespace, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def vanish(self):
        """Takes the client's address away: nothing is acknowledged any more."""
        run(f"ip -n {self.namespace} address flush dev line")


def serve(port):
    """Becomes the API; its events end as lines of its output."""
    server = Server(("127.0.0.1", port), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    for path in map(str.strip, sys.stdin):
        threading.Thread(target=lambda path=path: Api.ended[path].wait() and print(path, flush=True), daemon=True).start()


class Bench:
    """A namespace with a gateway and the API behind it."""

    def __init__(self, binary, slow):
        run(f"ip netns add {NAME}")
        run(f"ip -n {NAME} link set lo up")
        self.folder = tempfile.TemporaryDirectory()
        run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=line "
            "-keyout own.key -out own.pem",
            cwd=self.folder.name,
        )
        config = Path(self.folder.name) / "gateway.yaml"
        config.write_text(CONFIGURATION.replace("PORT", "9000").replace("SLOW", slow))
        self.api = subprocess.Popen(
            inside(NAME, [sys.executable, __file__, "serve", "9000"]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        assert self.api.stdout.readline() == "ready\n"
        threading.Thread(target=read_lines, args=[self], daemon=True).start()
        self.log = Path(self.folder.name) / "log"
        self.gateway = subprocess.Popen(inside(NAME, [binary, "run", "-c", config]), stderr=self.log.open("w"))
        deadline = time.monotonic() + 30
        while self.log.read_text().count('"address"') < 3:
            if time.monotonic() > deadline or self.gateway.poll() is not None:
                told = self.log.read_text()
                self.close()
                sys.exit(f"the gateway did not start: {told}")
            time.sleep(0.05)

    def close(self):
        for process in (self.gateway, self.api):
            process.kill()
            process.wait()
        for number in range(Line.made + 1):
            name = f"{NAME}-{number}" if number else NAME
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        self.folder.cleanup()


def ended(process, bytes, limit):
    """Waits for curl. Returns what was wrong."""
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"not done after {limit:.0f} s"
    return None if out == f"200 {bytes}" else f"{out} {err.strip()}"


def download(rate, protocol, bytes, path="/steady"):
    process = Line(rate).curl(protocol, f"{path}/{bytes}")
    return ended(process, bytes, 60 + 2 * bytes * 8 / (rate * 1000))


def pause(protocol, bytes, seconds):
    """A client that is suspended for a while, as a player or the page of a sleeping tab is."""
    process = Line(1_000).curl(protocol, f"/file/{bytes}", "--limit-rate", "100k")
    time.sleep(3)
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)
    return ended(process, bytes, 120)


def throttled(protocol, bytes, rate):
    """A client on a fast line that reads slowly."""
    process = Line(100_000).curl(protocol, f"/file/{bytes}", "--limit-rate", rate)
    return ended(process, bytes, 300)


def vanish(bench, protocol, limit):
    """A client that is gone while it has little to acknowledge."""
    path = f"/events/{time.monotonic_ns()}"
    line = Line(1_000)
    process = line.curl(protocol, path)
    time.sleep(3)
    line.vanish()
    bench.api.stdin.write(path + "\n")
    bench.api.stdin.flush()
    noticed = wait_for_line(bench, path, limit)
    process.kill()
    process.wait()
    return None if noticed else f"the gateway has not noticed after {limit} s"


SEEN, CHANGED = set(), threading.Condition()


def read_lines(bench):
    for line in bench.api.stdout:
        with CHANGED:
            SEEN.add(line.strip())
            CHANGED.notify_all()


def wait_for_line(bench, path, limit):
    with CHANGED:
        return CHANGED.wait_for(lambda: path in SEEN, limit)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--tries", type=int, default=0, help="tries of each rate and protocol, all at once")
    parser.add_argument("--rates", default="40,80,120,160,256", help="in kbit/s")
    parser.add_argument("--bytes", type=int, default=3_000_000)
    given = parser.parse_args()
    try:
        run(f"ip netns add {NAME}-0")
        run(f"ip -n {NAME}-0 link add here type veth peer name there")
        run(f"tc -n {NAME}-0 qdisc add dev here root tbf rate 80kbit burst {BURST} limit {QUEUE}")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        print(f"skipped: slow lines; there are no network namespaces: {str(reason).strip()}", flush=True)
        return 0
    finally:
        subprocess.run(["ip", "netns", "delete", f"{NAME}-0"], capture_output=True)
    bench = Bench(given.binary, "60s" if given.tries else "30s")
    checks = {}
    if given.tries:
        for rate in map(int, given.rates.split(",")):
            for protocol in ("HTTP/1", "HTTP/2"):
                for _ in range(given.tries):
                    name = f"{given.bytes} bytes at {rate} kbit/s, {protocol}"
                    checks.setdefault(name, []).append(lambda r=rate, p=protocol: download(r, p, given.bytes))
    else:
        for protocol in PROTOCOLS:
            checks[f"500 KB at 40 kbit/s, {protocol}"] = [lambda p=protocol: download(40, p, 500_000)]
            checks[f"1 MB at 120 kbit/s, {protocol}"] = [lambda p=protocol: download(120, p, 1_000_000)]
        for protocol in ("HTTP/1", "HTTP/2"):
            checks[f"900 KB at 10 KB/s, {protocol}"] = [lambda p=protocol: throttled(protocol=p, bytes=900_000, rate="10k")]
            checks[f"90 KB at 1 KB/s, {protocol}"] = [lambda p=protocol: throttled(protocol=p, bytes=90_000, rate="1k")]
            checks[f"a pause of 45 s, {protocol}"] = [lambda p=protocol: pause(p, 5_000_000, 45)]
            checks[f"a client that is gone, {protocol}"] = [lambda p=protocol: vanish(bench, p, 100)]
    failed = 0
    try:
        with ThreadPoolExecutor(max_workers=sum(map(len, checks.values()))) as pool:
            begun = time.monotonic()
            running = {name: [pool.submit(check) for check in group] for name, group in checks.items()}
            for name, group in running.items():
                wrong = [one.result() for one in group]
                faults = [fault for fault in wrong if fault]
                failed += len(faults)
                verdict = "FAILED" if faults else "ok"
                print(f"{verdict}: {name}: {len(wrong) - len(faults)} of {len(wrong)}; {'; '.join(faults[:3])}".rstrip("; "))
                sys.stdout.flush()
        print(f"{sum(map(len, checks.values())) - failed} passed, {failed} failed in {time.monotonic() - begun:.0f} s")
        if failed:
            lines = [json.loads(line) for line in bench.log.read_text().splitlines()]
            print(*[line for line in lines if line.get("outcome") not in (None, "forwarded")][:20], sep="\n")
    finally:
        bench.close()
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]))
    else:
        sys.exit(main())
