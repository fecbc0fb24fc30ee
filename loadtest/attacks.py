#!/usr/bin/env python3
"""Slow and silent clients by the thousand, and a good one beside them: what it sees, and when the others are cut off.

    loadtest/attacks.py --binary target/dist/tidegate                       # each kind of attack, then all at once: 15 minutes
    loadtest/attacks.py --binary target/dist/tidegate --only slowloris --seconds 30

The gateway has its default timeouts. A client that is cut off comes back at once, so their number stays the same; but slow readers
do not see it. Attackers, the good client and the API are processes of their own; each needs up to 20,000 file descriptors.
Exit status: 0 if the good client got 200 every time, 99 of 100 within 50 ms, if the others were closed within a second
of their time, and if all descriptors came back; 1 if not.
"""

import argparse
import contextlib
import multiprocessing
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kit.hostile import KINDS, attack, good_client, serve

PER_PROCESS = 2500
P99 = 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the gateway; a build with `--profile dist`, or it says little")
    parser.add_argument("--seconds", type=int, default=120, help="how long each attack goes on")
    parser.add_argument("--only", choices=[*KINDS, "all"], help="one attack")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attacks = {name: {name: kind[0]} for name, kind in KINDS.items()}
    # The descriptors of one process bound the number of each kind. A body and an answer need two.
    attacks["all"] = {name: kind[0] * 3 // 5 for name, kind in KINDS.items()}
    chosen = [options.only] if options.only else list(attacks)
    enough = 10 + max(KINDS[kind][3] for name in chosen for kind in attacks[name])
    if options.seconds < enough:
        parser.error(f"--seconds must be at least {enough}, or nobody is there for too long")
    print("| attack | clients | good requests | not 200 | p99 | worst | cut off | longest life | descriptors before, at most, after |")
    print("|---|---|---|---|---|---|---|---|---|")
    passed = [attacked(options, name, attacks[name]) for name in chosen]
    return 0 if all(passed) else 1


def attacked(options, name, kinds):
    """Runs one attack on a gateway of its own, prints its row, and returns whether it passed."""
    with tempfile.TemporaryDirectory(prefix="tidegate-attacks-") as folder, Scene(Path(folder), options.binary) as scene:
        before = scene.descriptors()
        good = Helper(good_client, scene.plain, options.seconds + 4)
        time.sleep(2)
        attackers = []
        for kind, count in kinds.items():
            port = scene.tls if kind == "half handshakes" else scene.plain
            shares = [min(PER_PROCESS, count - start) for start in range(0, count, PER_PROCESS)]
            attackers += [(kind, Helper(attack, kind, port, share, options.seconds)) for share in shares]
        most = 0
        while not all(helper.answer.poll() for _, helper in attackers):
            most = max(most, scene.descriptors())
            time.sleep(0.2)
        lives, stayed = {kind: [] for kind in kinds}, {kind: [] for kind in kinds}
        for kind, helper in attackers:
            ended, there = helper.result()
            lives[kind] += ended
            stayed[kind] += there
        times, failed = good.result()
        # A client that does not read an answer does not see its end, but the API does.
        if "slow readers" in lives:
            lives["slow readers"], stayed["slow readers"] = scene.api.stop(), []
        after = settled(scene, before)
        overdue = {kind: max(lives[kind] + stayed[kind], default=0) for kind in kinds}
        overdue = {kind: life for kind, life in overdue.items() if life > KINDS[kind][3] + 1}
        times.sort()
        p99, worst = times[int(len(times) * 0.99) - 1], times[-1]
        ended = [life for all_of in lives.values() for life in all_of]
        row = [name, sum(kinds.values()), len(times) + failed, failed, f"{p99 * 1000:.1f} ms", f"{worst * 1000:.0f} ms"]
        row += [len(ended), f"{max(ended, default=0):.1f} s", f"{before}, {most}, {after}"]
        print("|", " | ".join(map(str, row)), "|", flush=True)
        for kind, life in overdue.items():
            print(f"  {kind}: one was there for {life:.1f} s, not {KINDS[kind][3] + 1}")
        return failed == 0 and p99 < P99 and not overdue and after <= before + 8


def settled(scene, before):
    """Returns the gateway's descriptors after all clients have left. Good connections to the API may stay a while."""
    deadline = time.monotonic() + 15
    while (now := scene.descriptors()) > before + 8 and time.monotonic() < deadline:
        time.sleep(0.1)
    return now


class Helper:
    """A function in a process of its own, and its result."""

    def __init__(self, run, *arguments):
        self.answer, theirs = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(target=self.tell, args=(theirs, run, arguments), daemon=True)
        self.process.start()
        theirs.close()

    @staticmethod
    def tell(answer, run, arguments):
        answer.send(run(*arguments))

    def result(self):
        result = self.answer.recv()
        self.process.join()
        return result

    def stop(self):
        self.process.terminate()
        return self.result()


class Scene:
    """A gateway with a plain and a TLS listener, before an API."""

    def __init__(self, folder, binary):
        self.plain, self.tls, admin, api, good = free_ports(5)
        # The good client has an API of its own, apart from the others.
        self.api, self.good_api = Helper(serve, api), Helper(serve, good)
        pair = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
        subprocess.run(make + pair, check=True, capture_output=True)
        tls = f"{{ cert: {folder}/cert.pem, key: {folder}/key.pem }}"
        (folder / "gateway.yaml").write_text(
            f"listen: [127.0.0.1:{self.plain}, {{ address: 127.0.0.1:{self.tls}, tls: {tls} }}]\n"
            f"admin: 127.0.0.1:{admin}\nlog: {{ access: false }}\nmax_connections: 18000\n"
            # The attackers have one address and stand for many, so the limits per address must not apply.
            "trusted_proxies: [127.0.0.1]\n"
            f"limits: {{ all: {{ token_bucket: {{ capacity: 100000, refill: 100000/s }}, per: [ip] }} }}\n"
            f'routes:\n  - {{ path: /good, upstream: "http://127.0.0.1:{good}", limits: [all] }}\n'
            f'  - {{ path: /**, upstream: "http://127.0.0.1:{api}", limits: [all] }}\n'
        )
        with open(folder / "log", "wb") as log:
            self.gateway = subprocess.Popen([binary, "run", "-c", folder / "gateway.yaml"], stderr=log)
        if not all(reachable(port) for port in (api, good, self.plain)):
            self.__exit__()
            sys.exit("the gateway or the API does not listen:\n" + (folder / "log").read_text(errors="replace"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.gateway.pid}/fd"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gateway.kill()
        self.gateway.wait()
        for api in (self.api, self.good_api):
            api.process.terminate()


def free_ports(number):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in sockets]


def reachable(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        except ConnectionRefusedError:
            time.sleep(0.05)
    return False


if __name__ == "__main__":
    sys.exit(main())
