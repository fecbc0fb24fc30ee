"""The processes of a run: API, Redis, gateways. Each is on a port that the system picks, and is stopped in the end."""

import itertools
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SOON = 30  # seconds, for what takes a moment


class Trouble(Exception):
    """The reason why the run cannot go on."""


class Binaries:
    """The gateway and, if it is needed, the API: built here, or beside each other at the path of `gateway`."""

    def __init__(self, gateway=None, api=True):
        if gateway is None:
            gateway = self.build()
        self.gateway = Path(gateway).resolve()
        self.api = self.gateway.with_name("loadtest-api")
        for file in (self.gateway, self.api) if api else (self.gateway,):
            if not file.exists():
                raise Trouble(f"there is no {file}")

    @staticmethod
    def build():
        print("building the gateway and the API (a few minutes the first time)", flush=True)
        packages = ["-p", "tidegate", "--bin", "tidegate", "-p", "tidegate-testkit", "-p", "bare-proxy", "--bins"]
        command = ["cargo", "build", "--profile", "dist", "--locked", *packages]
        command += ["--message-format", "json-render-diagnostics"]
        built = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False)
        if built.returncode:
            raise Trouble("the build failed")
        for line in built.stdout.splitlines():
            message = json.loads(line)
            if message.get("executable") and message["target"]["name"] == "tidegate":
                return message["executable"]
        raise Trouble("the build made no gateway")


def step_back():
    """Leaves the processor to all others. A process that is only nice keeps it for the milliseconds of its slice."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)


class Processes:
    """All that a run started. Leaving the `with` stops them, the last one first."""

    def __init__(self, folder, binaries):
        self.folder = Path(folder)
        self.binaries = binaries
        self.running = []
        self.redis_secret = secrets.token_hex(16)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self.running:
            stop(self.running.pop())

    def start(self, name, command, steps_back=False, env=None):
        log = self.folder / f"{name}.log"
        for again in itertools.count(2):
            if not log.exists():
                break
            log = self.folder / f"{name}-{again}.log"
        with open(log, "xb") as file:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                preexec_fn=step_back if steps_back else None,
            )
        process.log = log
        self.running.append(process)
        return process

    def api(self, name, workers, service_time, queue):
        """Starts the API; returns its address and the file of its arrivals. The service time is in seconds."""
        arrivals = self.folder / f"{name}.tsv"
        command = [self.binaries.api, "--listen", "127.0.0.1:0", "--arrivals", arrivals, "--queue", queue]
        command += ["--workers", workers, "--service-time", service_time * 1000]
        process = self.start(name, command)
        url = found(process, r"listening on (http://\S+)")
        return process, url, arrivals

    def redis(self, port=None):
        """Starts a Redis without data on disk; returns the process and its port."""
        server = shutil.which("redis-server")
        if not server:
            raise Trouble("there is no redis-server (apt-get install redis-server)")
        for _ in range(3):
            chosen = port or free_port()
            command = [server, "--port", chosen, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
            command += ["--dir", self.folder, "--maxmemory-policy", "noeviction"]
            process = self.start("redis", command)
            if answers(process, chosen):
                return process, chosen
        raise Trouble(f"redis-server does not start: see {process.log}")

    def gateway(self, name, config, store):
        """Starts a gateway; `store` is the value of that key. Returns its process, its address and its admin address."""
        config = {
            "listen": "127.0.0.1:0",
            "admin": "127.0.0.1:0",
            "store": store,
            "secret": self.redis_secret,
            "forward_client": "X-Client-Id",
            **config,
            "log": {"format": "json"},
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(config, indent=1), encoding="utf-8")  # JSON is YAML
        process = self.start(name, [self.binaries.gateway, "run", "-c", path])
        listen = found(process, r'"listening","address":"([^"]+)"')
        admin = found(process, r'"admin port[^"]*","address":"([^"]+)"')
        until(lambda: fetched(f"http://{admin}/readyz") is not None, f"{name} is not ready: see {process.log}")
        return process, f"http://{listen}", f"http://{admin}"

    def keys(self, names):
        """Makes API keys of these names by `tidegate keys`; returns each key with its entry for the configuration."""
        made = []
        for name in names:
            command = [self.binaries.gateway, "keys", "new", name]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            key = re.search(r"^key: +(\S+)", told, re.MULTILINE).group(1)
            digest = re.search(r"sha256:[0-9a-f]{64}", told).group(0)
            made.append((key, {"name": name, "hash": digest}))
        return made


def stop(process):
    """Sends SIGTERM, and later SIGKILL."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(SOON)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def until(is_so, otherwise, within=SOON):
    end = time.monotonic() + within
    while not is_so():
        if time.monotonic() > end:
            raise Trouble(otherwise)
        time.sleep(0.02)


def found(process, pattern):
    """Waits for a pattern in the log of a process, and returns the match."""

    def look():
        match = re.search(pattern, process.log.read_text(encoding="utf-8", errors="replace"))
        if not match and process.poll() is not None:
            raise Trouble(f"{process.args[0]} ended:\n{process.log.read_text(encoding='utf-8', errors='replace')}")
        return match

    until(look, f"{process.args[0]} does not start: see {process.log}")
    return look().group(1)


def fetched(url, trust=None):
    """Returns the text of a page, or None; `trust` is an SSL context for https."""
    try:
        with urllib.request.urlopen(url, timeout=5, context=trust) as answer:
            return answer.read().decode()
    except OSError:
        return None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(process, port):
    end = time.monotonic() + SOON
    while process.poll() is None and time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return True
        except OSError:
            pass
        time.sleep(0.02)
    return False


