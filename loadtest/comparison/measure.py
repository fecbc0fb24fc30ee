"""One measurement: starts the processes of a row, loads them, reads their costs, and judges the answers."""

import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from subprocess import run as call
from types import SimpleNamespace

from comparison import gateways
from comparison.gateways import OTHERS, PATH, REFUSES, pinned, serves
from comparison.load import SMALL, wrk
from kit.processes import Processes, Trouble, free_port, stop

HERE = Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")
WARM_UP = 1  # seconds, before anything counts
BROKEN = 0.001  # a row that gets more than this share of answers it should not get is no measurement


def cores():
    """Returns the gateway's core, the cores of a gateway with two threads, and the core of all other processes."""
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) < 2:
        raise Trouble("this needs two cores: one for the gateway, one for the load")
    return SimpleNamespace(one=mine[:1], load=[mine[1]], two=[mine[0], mine[2] if len(mine) > 2 else mine[1]])


class Target:
    """A gateway that runs, and its Redis if it has one."""

    def __init__(self, row, run, processes, limit=None, under=()):
        limit = limit or row.limit
        self.row, self.run, self.redis, redis_port = row, run, None, None
        if row.redis:
            self.redis, redis_port = gateways.redis(run, processes)
        self.redis_port = redis_port
        self.headers = []
        self.clients, self.traffic = row.clients, row.traffic
        self.port = free_port()
        options = dict(row.options)
        if row.api_key:
            [(key, entry)] = processes.keys(["caller"])
            options["keys"], self.headers = [entry], [f"X-API-Key: {key}"]
        tls = run.tls if row.traffic.tls else None
        if tls:
            options["tls"] = tls
        if row.gateway in OTHERS:
            command, env = OTHERS[row.gateway].start(run, limit, self.port, redis_port, **options)
        else:
            binary = run.against if row.other_build else None
            command, env = gateways.tidegate(run, limit, self.port, redis_port, binary=binary, **options)
        cores = run.cores.two if row.threads == 2 else run.cores.one
        self.process = processes.start(row.name.replace(" ", "-"), pinned(cores, [*under, *command]), env=env)
        serves(self.process, self.port, tls)

    def used(self):
        """Returns the CPU seconds of the gateway and of Redis so far, and the scripts that Redis has run."""
        redis = processor(self.redis.pid) if self.redis else 0.0
        return processor(self.process.pid), redis, scripts(self.redis_port) if self.redis else 0


class Upstream:
    """The API without a gateway: the cost of the load generator and the machine themselves."""

    def __init__(self, run):
        self.port, self.headers, self.clients, self.traffic = run.upstream_port, [], 1, SMALL


@contextlib.contextmanager
def started(row, run, limit=None, under=()):
    """The row's gateway, for the time of the `with`. `under` is a command that runs the gateway's command."""
    with Processes(run.folder, run.binaries) as processes:
        target = Target(row, run, processes, limit, under)
        yield target
        # A log of every request would fill the folder in the end.
        stop(target.process)
        target.process.log.unlink()


def full(row, run):
    """Measures the top rate of the connections: each sends its next request as soon as it has its answer."""
    with started(row, run) as target:
        row.traffic.client(target, run, WARM_UP)
        before = *target.used(), taken(run.cores.one[0])
        told = row.traffic.client(target, run, run.seconds)
        after = *target.used(), taken(run.cores.one[0])
        gateway, redis, asked, core = (now - then for now, then in zip(after, before))
    judge(row, told, run.seconds)
    requests = answers(row, told)
    return {
        "cpu_us": gateway / requests * 1e6,
        "redis_cpu_us": redis / requests * 1e6,
        "scripts_per_request": asked / requests,
        "scripts_per_second": asked / told["microseconds"] * 1e6,
        "per_second": requests / told["microseconds"] * 1e6,
        "busy": gateway / told["microseconds"] * 1e6,
        "others": max(0.0, core - gateway) / told["microseconds"] * 1e6,
        "p50_us": told["p50"],
        "p99_us": told["p99"],
    }


def answers(row, told):
    """Returns the number of answers. Large ones count by their bytes, because many are under way at the end."""
    return told["bytes"] / row.traffic.size if row.traffic.size else told["requests"]


def judge(row, told, seconds):
    """Fails a row with wrong answers."""
    requests, refused = told["requests"], told["refused"]
    expected = requests - refused if row.limit is REFUSES else refused
    # A bucket that refuses may admit a few requests.
    by_right = 100 + 20 * seconds if row.limit is REFUSES else 0
    if requests == 0 or told["broken"] or expected > by_right + BROKEN * requests:
        why = f" ({told['trouble']})" if told.get("trouble") else ""
        raise Trouble(f"{row.name}: {requests:,} requests, {refused:,} refused and {told['broken']:,} broken{why}: not what it is to do")
    if row.traffic.size and told["bytes"] < requests * row.traffic.size:
        raise Trouble(f"{row.name}: {told['bytes']:,} bytes in {requests:,} answers: they are cut")


def upstream_alone(run):
    told = wrk(Upstream(run), run, run.seconds)
    return {"per_second": told["requests"] / told["microseconds"] * 1e6, "p50_us": told["p50"], "p99_us": told["p99"]}


def steady(row, run, rate, seed):
    """Measures a steady rate of requests that does not depend on answers; without a row, to the API itself."""
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(started(row, run)) if row else Upstream(run)
        before = target.used() if row else (0.0, 0.0, 0)
        client = [sys.executable, HERE / "steady.py", target.port, PATH, rate, run.seconds, run.connections, seed]
        done = call([str(word) for word in pinned(run.cores.load, client)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Trouble(f"the steady client failed: {done.stderr}")
        gateway, redis, _ = (after - at for after, at in zip(target.used() if row else before, before))
    told = json.loads(done.stdout)
    if told["refused"] or told["answered"] < told["due"]:
        raise Trouble(f"{told['due']:,} were due, {told['answered']:,} answered and {told['refused']:,} refused")
    sent = told["due"] / run.seconds * (run.seconds + WARM_UP)
    return {
        "cpu_us": gateway / sent * 1e6,
        "redis_cpu_us": redis / sent * 1e6,
        "p50_us": told["p50"],
        "p99_us": told["p99"],
        "p999_us": told["p999"],
    }


def idle(row, run, connections):
    """Measures the cost of silent clients that have had one answer each."""
    request = f"GET {PATH} HTTP/1.1\r\nHost: idle\r\n\r\n".encode()
    with started(row, run) as target, contextlib.ExitStack() as stack:
        time.sleep(1)
        before = resident(target.process.pid)
        for _ in range(connections):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", target.port), timeout=10))
            one.sendall(request)
            if not one.recv(4096).startswith(b"HTTP/1.1 200"):
                raise Trouble(f"{row.name}: a connection was refused")
        time.sleep(5)  # until they rest, and what they held is given back
        after = resident(target.process.pid)
    return {"bytes_each": (after - before) / connections, "resident_bytes": after}


def processor(pid):
    """Returns the CPU seconds of a process and its children."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / TICK + sum(processor(child) for child in children(pid))


def taken(core):
    """Returns the CPU seconds that a core has been busy for any process, including other guests of the machine."""
    for row in Path("/proc/stat").read_text(encoding="utf-8").splitlines():
        if row.startswith(f"cpu{core} "):
            user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, row.split()[1:9])
            return (user + nice + system + irq + softirq + steal) / TICK
    return 0.0


def resident(pid):
    """Returns the bytes in memory of a process and its children."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident(child) for child in children(pid))


def children(pid):
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return []


def scripts(port):
    """Returns the number of calls of scripts that a Redis has got."""
    asked = (line for line in info(port, "commandstats") if line.startswith("cmdstat_eval"))
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in asked)


def info(port, section):
    """Returns the lines of one section of a Redis's INFO."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, connection.makefile("rb") as answer:
        connection.sendall(f"INFO {section}\r\n".encode())
        length = int(answer.readline()[1:])
        return answer.read(length).decode().splitlines()
