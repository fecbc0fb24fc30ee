"""The load of a row: the clients, and their counts and times. They run on the core of the load."""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import run as call

from comparison import tls
from comparison.gateways import MEGABYTE, PATH, pinned
from kit.processes import Trouble

HERE = Path(__file__).resolve().parent
LINES = {
    "finished": r"^finished in ([\d.]+)(us|ms|s|m)\b",
    "requests": r"^requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout$",
    "codes": r"^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx$",
}
UNITS = {"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6}


def wrk(target, run, seconds):
    script = HERE / "report.lua"
    if target.clients > 1:
        script = run.folder / "clients.lua"
        script.write_text((HERE / "clients.lua").read_text() + (HERE / "report.lua").read_text(), encoding="utf-8")
    command = [run.programs["wrk"], "-t1", f"-c{connections(target, run)}", f"-d{seconds}s", "--latency", "-s", script]
    for header in target.headers:
        command += ["-H", header]
    said = told(run, target.traffic, [*command, url(target), "--", target.clients])
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if not lines:
        raise Trouble(f"wrk failed: {said}")
    return json.loads(lines[0])


def h2load(target, run, seconds):
    log = run.folder / f"h2load-{target.port}.log"
    log.unlink(missing_ok=True)
    command = [run.programs["h2load"], "-t1", f"-c{connections(target, run)}", f"-m{target.traffic.fewer}", f"-D{seconds}"]
    command += [f"--log-file={log}"]
    command += [f"--tls13-ciphers={tls.SUITE}", f"--groups={tls.GROUP}", url(target)]
    said = told(run, target.traffic, command)
    for line in (f"TLS Protocol: {tls.VERSION}", f"Cipher: {tls.SUITE}", f"Server Temp Key: {tls.GROUP}", "Application protocol: h2"):
        if line not in said:
            raise Trouble(f"no line of h2load has {line}: {said}")
    found = h2load_found(said, log.read_text(encoding="utf-8"))
    log.unlink()
    return found


def h2load_found(said, log):
    """Returns the counts and times of h2load, from its output and its log of requests, under the names of `report.lua`."""
    lines = {name: re.search(pattern, said, re.MULTILINE) for name, pattern in LINES.items()}
    if missing := [name for name, line in lines.items() if not line]:
        raise Trouble(f"no line of h2load has {missing[0]}: {said}")
    took, unit = lines["finished"].groups()
    succeeded, _, errored, timeouts = map(int, lines["requests"].groups())
    _, elsewhere, *failed = map(int, lines["codes"].groups())  # h2load counts 3xx as a success
    times = sorted(int(line.split("\t")[2]) for line in log.splitlines())
    p50, p99 = (times[min(len(times) - 1, int(len(times) * part))] if times else 0 for part in (0.5, 0.99))
    return {
        "requests": succeeded + sum(failed),
        "microseconds": round(float(took) * UNITS[unit]),
        "refused": elsewhere + sum(failed),
        "broken": errored + timeouts,
        "p50": p50,
        "p99": p99,
    }


def handshakes(target, run, seconds):
    client = [sys.executable, HERE / "handshakes.py", target.port, target.traffic.path, seconds, connections(target, run)]
    found = json.loads(told(run, target.traffic, [*client, run.tls.certificate]))
    if found["offers"] not in ([], [[tls.VERSION, tls.SUITE]]):
        raise Trouble(f"handshakes agreed upon {found['offers']}")
    return found


@dataclass(frozen=True)
class Traffic:
    """Requests and their answers: the client, the path, and whether TLS is used."""

    client: object = wrk
    tls: bool = False
    path: str = PATH
    size: int = 0  # bytes of a large answer
    fewer: int = 1  # times fewer connections than most rows have; over HTTP/2 each carries that many requests at once
    needs: tuple = ()  # programs beyond wrk


SMALL = Traffic()
OTHER = {
    "tls 1": Traffic(tls=True, needs=("openssl",)),
    "tls 2": Traffic(h2load, tls=True, fewer=8, needs=("openssl", "h2load")),
    "megabyte": Traffic(path=MEGABYTE, size=1_000_000, fewer=8),
    "megabyte tls": Traffic(tls=True, path=MEGABYTE, size=1_000_000, fewer=8, needs=("openssl",)),
    "handshakes": Traffic(handshakes, tls=True, needs=("openssl",)),
}


def url(target):
    return f"http{'s' if target.traffic.tls else ''}://127.0.0.1:{target.port}{target.traffic.path}"


def connections(target, run):
    return max(1, run.connections // target.traffic.fewer)


def told(run, traffic, command):
    """Runs a client, and returns its output."""
    words = [str(word) for word in pinned(run.cores.load, command)]
    done = call(words, capture_output=True, text=True, check=False, env=tls.environment(run.tls) if traffic.tls else None)
    if done.returncode:
        raise Trouble(f"{Path(words[3]).name} failed: {done.stdout}{done.stderr}")
    return done.stdout
