#!/usr/bin/env python3
"""Weighs three ways to keep an exact sliding-window log in Redis.

    python3 weigh.py          # needs Python 3 and a redis-server on the PATH; takes about a minute

A log is the stamps (microseconds since the epoch) of what one client was admitted in the last window, kept as

    sorted set   one member per stamp, as published recipes do        sorted_set.lua
    list         stamps that never decrease, cut off at the head      list.lua
    packed       one string that holds a ring of 8-byte stamps        packed.lua

First all three replay one random history (a clock that stops and steps back, costs, changed limits) against a model
in Python; a difference, or a key without a fitting expiry, ends the run. Then they are measured on full logs, taking
turns, each in a Redis of its own. It prints a markdown table; each number is the median of five rounds:

    key B             MEMORY USAGE of one client's log
    client B          what used_memory grew by, per client: the log, its name and its table entries
    admitted          microseconds of Redis per pipelined call (commandstats) that drops one dead stamp and adds one
    refused           the same for a call that finds the log full
    half dead         the same for an admitted call that finds half of the log dead: a client back after a pause
"""
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

FORMS = ["sorted set", "list", "packed"]
CLIENTS = {10: 500, 100: 200, 1_000: 100, 10_000: 40}  # by limit; at most TIMED of them are timed
ROUNDS, CALLS, TIMED = 5, 16, 100                       # a round is this many calls of each client
SLOT = 100_000                                          # microseconds from one admitted call of a client to its next

NOW = "local t = redis.call('TIME') return decide(t[1] * 1000000 + t[2] + ARGV[4])"  # ARGV[4] shifts Redis's clock
TOLD = "return decide(tonumber(ARGV[4]))"
FILL = "for i = 1, ARGV[5] do decide(ARGV[4] + i * ARGV[6]) end"


def encode(*words):
    words = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Redis:
    """A redis-server in a folder of its own, reached through a socket there, that knows the scripts of one form."""

    def __init__(self, form):
        self.folder = tempfile.mkdtemp()
        options = ["--port", "0", "--unixsocket", "socket", "--save", "", "--dir", self.folder]
        self.process = subprocess.Popen(["redis-server", *options], cwd=self.folder, stdout=subprocess.DEVNULL)
        self.socket = socket.socket(socket.AF_UNIX)
        while self.socket.connect_ex(self.folder + "/socket"):
            time.sleep(0.01)
        self.answers = self.socket.makefile("rb")
        here = pathlib.Path(__file__).parent
        text = (here / "common.lua").read_text() + (here / (form.replace(" ", "_") + ".lua")).read_text()
        self.now, self.told, self.fill = (self.call("SCRIPT", "LOAD", text + last) for last in (NOW, TOLD, FILL))

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)

    def answer(self):
        line = self.answers.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise RuntimeError(rest)
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == "-1" else self.answers.read(int(rest) + 2)[:-2].decode()
        return int(rest) if kind == b":" else rest

    def pipeline(self, commands):
        answers = []
        for i in range(0, len(commands), 50):  # small batches keep Redis's buffers small
            self.socket.sendall(b"".join(commands[i:i + 50]))
            answers += [self.answer() for _ in commands[i:i + 50]]
        return answers

    def call(self, *words):
        return self.pipeline([encode(*words)])[0]

    def memory(self):
        return int(self.call("INFO", "memory").split("used_memory:")[1].split()[0])

    def timed(self, commands, expected):
        """Microseconds of Redis per call, or None if a call was answered otherwise than expected."""
        self.call("CONFIG", "RESETSTAT")
        answers = self.pipeline(commands)
        spent = self.call("INFO", "commandstats").split("cmdstat_evalsha:")[1].split("usec=")[1].split(",")[0]
        return int(spent) / len(commands) if all(expected(answer) for answer in answers) else None


def model(stamps, now, limit, window, cost, tidy):
    """What a form must answer; stamps never decrease. A tidy form drops the dead for a refused call too: what has been
    dropped cannot come back to life when the clock steps back."""
    if stamps and stamps[-1] > now + window:
        stamps[:] = [min(stamp, now) for stamp in stamps]
    live = [stamp for stamp in stamps if stamp > now - window]
    used = len(live)
    if tidy or used + cost <= limit:
        stamps[:] = live
    if used + cost > limit:
        return [0, max(0, limit - used), live[used + cost - limit - 1] + window - now, live[-1] + window - now]
    stamps += [max([now, *stamps[-1:]])] * cost
    return [1, limit - len(stamps), 0, stamps[-1] + window - now]


def agree(redis, form):
    dice, window, now, limit = random.Random(7), 60_000_000, time.time_ns() // 1000, 12
    steps = [0, 1, 1_000, 2_000_000, 9_000_000] * 8 + [window, -1, -1_000, -30_000_000, -50_000_000, -3 * window]
    for turn in range(20_000):
        if turn % 200 == 0:  # a new client
            stamps, key = [], f"log:{turn}"
        now += dice.choice(steps)
        limit = dice.choice([5, 12, 40]) if turn % 50 == 0 else limit
        cost = dice.choice([1, 1, 1, 2, 5])
        expected = model(stamps, now, limit, window, cost, tidy=form == "sorted set")
        decide = encode("EVALSHA", redis.told, 1, key, limit, window, cost, now)
        answered, left = redis.pipeline([decide, encode("PTTL", key)])
        if answered != expected or not 0 < left <= 2 * window // 1000 + 10:
            raise SystemExit(f"{form}, turn {turn}: answered {answered}, expected {expected}; {left} ms to live")


def fill(redis, names, limit, window, start):
    """Full logs that have lost a quarter of a limit at the head, with a stamp in every slot; returns the last slot."""
    count = limit + limit // 4
    redis.pipeline([encode("EVALSHA", redis.fill, 1, name, limit, window, 1, start, count, SLOT) for name in names])
    return start + count * SLOT


def calls(redis, names, limit, window, now):
    shift = now - time.time_ns() // 1000
    return [encode("EVALSHA", redis.now, 1, name, limit, window, 1, shift) for name in names]


def weigh(redis, limit, window):
    """Bytes of a key, bytes per client, and microseconds of a call that finds half of the log dead."""
    names = [f"log:a{i:05}" for i in range(CLIENTS[limit])]
    fill(redis, ["log:warm"], 10, SLOT, 0)  # what Redis keeps per command is not to be counted
    before = redis.memory()
    last = fill(redis, names, limit, window, time.time_ns() // 1000)
    each = (redis.memory() - before) / len(names)
    key = statistics.median(redis.call("MEMORY", "USAGE", name, "SAMPLES", 0) for name in names[:ROUNDS])
    rounds = []
    for i in range(ROUNDS):
        commands = calls(redis, names[i::ROUNDS], limit, window, last + window // 2)
        rounds.append(redis.timed(commands, lambda answer: answer[0] == 1 and answer[1] >= limit // 2 - 1))
    return key, each, statistics.median(filter(None, rounds))


def clock(servers, limit, window):
    """Microseconds of an admitted and of a refused call, by form: every slot has one of each for every client."""
    names = [f"log:b{i:05}" for i in range(min(CLIENTS[limit], TIMED))]
    first = time.time_ns() // 1000
    for redis in servers.values():
        last = fill(redis, names, limit, window, first)
    start = time.time_ns() // 1000 + SLOT
    commands = {form: [encode("EVALSHA", redis.now, 1, name, limit, window, 1, last + SLOT - start) for name in names]
                for form, redis in servers.items()}
    times = {(form, kind): [[] for _ in range(ROUNDS)] for form in servers for kind in (0, 1)}
    for slot in range(-2, ROUNDS * CALLS):  # two to warm up
        time.sleep(max(0, (start + (slot + 2) * SLOT) / 1e6 - time.time()))
        for form, redis in servers.items():
            for kind in (1, 0):
                spent = redis.timed(commands[form], lambda answer: answer[0] == kind)
                if slot >= 0 and spent is not None:
                    times[form, kind][slot // CALLS].append(spent)
    return {which: statistics.median(statistics.mean(spent) for spent in rounds if spent)
            for which, rounds in times.items()}


def main():
    print("| limit | form | key B | client B | admitted us | refused us | half dead us |")
    print("|--:|:--|--:|--:|--:|--:|--:|")
    for limit in CLIENTS:
        window = limit * SLOT - SLOT // 2  # so the stamp of `limit` slots ago is dead, and the one after it is not
        servers = {form: Redis(form) for form in FORMS}
        try:
            if limit == min(CLIENTS):
                for form, redis in servers.items():
                    agree(redis, form)
            weights = {form: weigh(redis, limit, window) for form, redis in servers.items()}
            times = clock(servers, limit, window)
        finally:
            for redis in servers.values():
                redis.stop()
        for form, (key, each, half) in weights.items():
            print(f"| {limit:,} | {form} | {key:,.0f} | {each:,.0f} "
                  f"| {times[form, 1]:.1f} | {times[form, 0]:.1f} | {half:,.1f} |", flush=True)


if __name__ == "__main__":
    main()
