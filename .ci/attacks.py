"""What .ci/attacks runs: one gateway with its default timeouts, and tools that attack it. Each check is one line.

Beside each attack a good client asks every 100 ms, on connections of its own. An attack passes if every good request was
answered with 200 in time, the tool found the service available throughout, and no slow connection was left before the tool's
own end.
"""

import json
import multiprocessing
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.dont_write_bytecode = True

CONNECTIONS = 800
LARGE = 512 << 10
# The longest that a good request may take, with attackers, gateway and API on one machine.
PATIENCE = 3

# What the self-signed certificate alone is the reason for: nobody vouches for it, revokes it, or logs it.
OF_THE_CERTIFICATE = re.compile(
    r"cert_(chain_of_trust|trust|revocation|ocsp|crl|caIssuers|extlifeSpan|notAfter|expirationStatus|must_staple|eTLS)"
    r"|OCSP_stapling|DNS_CAArecord|certificate_transparency|overall_grade|grade_cap"
)
# What the script says of the openssl that it runs: it knows no GOST, and leaves before the ticket of TLS 1.3 has come.
OF_THE_TOOL = {"engine_problem", "sessionresumption_ticket"}
FINE = {"OK", "INFO", "DEBUG"}

CONFIGURATION = """
listen:
  - 127.0.0.1:0
  - { address: "127.0.0.1:0", tls: { cert: own.pem, key: own.key } }
admin: 127.0.0.1:0
log: { format: json, access: false }
routes:
  # The good client's API has nothing to do with the attacked one.
  - { path: /good, upstream: "http://127.0.0.1:GOOD" }
  - path: /**
    upstream: http://127.0.0.1:API
    # What an API should say of its own pages.
    response_headers:
      set:
        Strict-Transport-Security: max-age=63072000
        Content-Security-Policy: default-src 'none'
        X-Frame-Options: DENY
        X-Content-Type-Options: nosniff
"""


class Api(BaseHTTPRequestHandler):
    """Takes bodies, and answers with much at /large."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        size = LARGE if self.path.startswith("/large") else 2
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"x" * size)

    do_HEAD = do_GET

    def do_POST(self):
        left = int(self.headers.get("Content-Length", 0))
        while left > 0 and (part := self.rfile.read1(min(left, 65536))):
            left -= len(part)
        self.do_GET()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_):
        # A gateway that gives a request up closes the connection.
        pass


def serve():
    """An API in a process of its own, by its port."""
    server = Server(("127.0.0.1", 0), Api)
    multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True).start()
    return str(server.server_port)


class Gateway:
    def __init__(self, binary, folder):
        api, good = serve(), serve()
        subprocess.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj /CN=localhost "
            "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE "
            "-addext keyUsage=critical,digitalSignature -addext extendedKeyUsage=serverAuth "
            "-keyout own.key -out own.pem".split(),
            cwd=folder, check=True, capture_output=True,
        )
        config = Path(folder) / "gateway.yaml"
        config.write_text(CONFIGURATION.replace("127.0.0.1:API", f"127.0.0.1:{api}").replace("GOOD", good))
        self.process = subprocess.Popen([binary, "run", "-c", config], stderr=subprocess.PIPE, text=True)
        ports = []
        while len(ports) < 3:
            line = self.process.stderr.readline() or sys.exit("the gateway did not start")
            if "address" in line:
                ports.append(json.loads(line)["address"].split(":")[1])
        self.plain, self.secured, self.admin = ports
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.plain}{path}"

    def clients(self):
        """Connections of clients that are open on the gateway's side."""
        rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        # The local address with its port in hexadecimal digits, and the state: 1 is established, 8 closed by the client alone.
        return sum(int(row[1].split(":")[1], 16) == int(self.plain) and row[3] in ("01", "08") for row in rows)


class GoodClient(threading.Thread):
    """Asks now and then until it is told to stop, and notes what went wrong."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.stopped = url, threading.Event()
        self.asked, self.worst, self.failures = 0, 0.0, []

    def run(self):
        while not self.stopped.wait(0.1):
            began = time.monotonic()
            self.asked += 1
            try:
                with urllib.request.urlopen(self.url, timeout=PATIENCE) as answer:
                    answer.read()
            except OSError as error:
                self.failures.append(str(error))
            self.worst = max(self.worst, time.monotonic() - began)


def slow(gateway, options, longest):
    """One run of slowhttptest; `longest` is when all of its connections must be gone, in seconds."""
    good = GoodClient(gateway.url("/good"))
    good.start()
    began = time.monotonic()
    # -p: its own probe. How long connections stay is looked at on the gateway's side: a slow reader has yet to read what was
    # sent before the end.
    command = f"slowhttptest {options} -c {CONNECTIONS} -r 200 -l {longest} -p {PATIENCE} -v 1"
    tool = subprocess.Popen(command.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    most, gone = 0, None
    while gone is None and time.monotonic() - began < longest:
        time.sleep(0.5)
        open_now = gateway.clients()
        most = max(most, open_now)
        # All have come, and only the good client and the tool's probe may be there.
        if time.monotonic() - began > CONNECTIONS / 200 + 3 and open_now <= 3:
            gone = time.monotonic() - began
    tool.terminate()
    text = re.sub(r"\x1b\[[0-9;]*m", "", tool.communicate(timeout=30)[0])
    good.stopped.set()
    good.join()
    wrong = []
    if good.failures:
        wrong.append(f"{len(good.failures)} of {good.asked} good requests failed: {good.failures[0]}")
    if re.search(r"service available:\s*NO", text):
        wrong.append("the tool found the service unavailable")
    if gone is None:
        wrong.append(f"{gateway.clients()} connections were left after {longest} s")
        return wrong, ""
    told = f"{most} at once, all gone after {gone:.0f} s; {good.asked} good requests, the slowest took {good.worst:.2f} s"
    return wrong, told


def testssl(gateway, folder):
    report = Path(folder) / "testssl.json"
    command = ["testssl", "--quiet", "--color", "0", "--warnings", "off", "--nodns", "none", "--ip", "127.0.0.1"]
    command += ["--jsonfile", str(report), f"https://localhost:{gateway.secured}"]
    tool = subprocess.run(command, capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL)
    if not report.exists():
        return [tool.stdout[-2000:] + tool.stderr[-2000:]], ""
    findings = json.loads(report.read_text())
    above = [one for one in findings if one["severity"] not in FINE and one["id"] not in OF_THE_TOOL]
    own = [one for one in above if OF_THE_CERTIFICATE.search(one["id"])]
    wrong = [f"{one['severity']} {one['id']}: {one['finding']}" for one in above if one not in own]
    if len(findings) < 100:
        wrong.append(f"only {len(findings)} findings: {tool.stdout[-1000:]}")
    certificate = ", ".join(sorted(one["id"] for one in own))
    return wrong, f"{len(findings)} findings; of the self-signed certificate: {certificate}"


def main():
    binary, only = sys.argv[1], sys.argv[2:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(binary, folder)
        checks = {
            "slow heads (-H)": lambda: slow(gateway, f"-H -i 5 -x 24 -u {gateway.url()}", 60),
            "slow bodies (-B)": lambda: slow(gateway, f"-B -i 5 -x 10 -s 65536 -u {gateway.url()}", 90),
            "ranges (-R)": lambda: slow(gateway, f"-R -t HEAD -a 5 -b 3000 -u {gateway.url()}", 120),
            "slow reading (-X)": lambda: slow(
                gateway, f"-X -w 256 -y 1024 -n 5 -z 32 -u {gateway.url('/large')}", 120
            ),
            "testssl.sh": lambda: testssl(gateway, folder),
        }
        try:
            for name, check in checks.items():
                if only and not any(word in name for word in only):
                    continue
                wrong, told = check()
                failed |= bool(wrong)
                print(f"{'FAILED' if wrong else 'ok':6} {name}: {'; '.join(wrong) or told}", flush=True)
        finally:
            gateway.process.terminate()
            gateway.process.wait(60)
    sys.exit(failed)


main()
