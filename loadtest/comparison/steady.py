"""A client that sends at a steady rate, whatever the answers. Requests that wait do not hold back other requests.

    python3 steady.py PORTS PATH RATE SECONDS CONNECTIONS SEED [CLIENTS]      # prints one line of JSON, times in microseconds

PORTS are separated by commas, and share the connections. With CLIENTS, each request names one of them in X-Forwarded-For, in turn.

Requests are due at random times (a Poisson process). Each is sent when it is due, on an idle connection. If there is no
idle connection, it waits, and its time counts from its due time. So a stall of the gateway counts for all requests that
are due in it. The delay until this process itself wakes up does not count.
"""

import ctypes
import gc
import json
import random
import re
import select
import socket
import sys
import time

WARM_UP = 1  # seconds, which do not count
PATIENCE = 10  # seconds, for answers that are still due in the end
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
FINEST_TIMERS = (29, 1)  # prctl(PR_SET_TIMERSLACK, 1 ns): else the system wakes us up to 50 us late


def main():
    ports, path, rate, seconds, connections, seed, *clients = sys.argv[1:]
    ports = [int(port) for port in ports.split(",")]
    ctypes.CDLL(None).prctl(*FINEST_TIMERS)
    gc.disable()
    chance = random.Random(int(seed))
    due, now = [], 0.0
    while now < WARM_UP + float(seconds):
        now += chance.expovariate(float(rate))
        due.append(now)
    requests = [request(ports[0], path, client) for client in range(int(clients[0]))] if clients else [request(ports[0], path)]
    sockets = [connected(ports[number % len(ports)]) for number in range(int(connections))]
    used, begun = time.process_time(), time.perf_counter()
    times, refused = ride(due, requests, sockets)
    took = time.perf_counter() - begun
    told = {"due": sum(1 for at in due if at >= WARM_UP), "answered": len(times), "refused": refused, "sent": len(due)}
    # The seconds from the first request that counts to the last answer, and the share of its processor that this process took.
    told |= {"seconds": took - WARM_UP, "busy": (time.process_time() - used) / took}
    times.sort()
    for name, part in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
        told[name] = round(times[min(len(times) - 1, int(len(times) * part))] * 1e6, 1) if times else None
    print(json.dumps(told))


def request(port, path, client=None):
    """Returns the bytes of a request, of one client by its address behind a trusted proxy or of the peer."""
    named = "" if client is None else f"X-Forwarded-For: 10.{client >> 16}.{client >> 8 & 255}.{client & 255}\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{named}\r\n".encode()


def connected(port):
    one = socket.create_connection(("127.0.0.1", port))
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.setblocking(False)
    return one


def ride(due, requests, sockets):
    """Sends all requests; returns the seconds of each answer that counts, and the number of answers that are no 200."""
    epoll = select.epoll()
    by_number = {one.fileno(): one for one in sockets}
    for number in by_number:
        epoll.register(number, select.EPOLLIN)
    idle, begun, parts = list(sockets), {}, {}
    times, refused, following = [], 0, 0
    kept_waiting = 0.0  # who was due until then found no idle connection
    clock, start = time.perf_counter, time.perf_counter()
    counts_from = start + WARM_UP
    due = [start + at for at in due]
    last = due[-1] + PATIENCE
    while (following < len(due) or begun) and clock() < last:
        now = clock()
        while following < len(due) and due[following] <= now and idle:
            one = idle.pop()
            sent = due[following] if due[following] <= kept_waiting else clock()
            one.send(requests[following % len(requests)])
            begun[one.fileno()] = sent, due[following] >= counts_from
            following += 1
        more = following < len(due)
        if more and not idle:
            kept_waiting = clock()
        pause = max(0.0, due[following] - clock()) if more and idle else PATIENCE
        # The wait of epoll has milliseconds, the wait of select microseconds.
        if begun or pause > 0:
            select.select([epoll], [], [], pause)
        for number, _ in epoll.poll(0):
            answer = parts.pop(number, b"") + by_number[number].recv(65_536)
            if not whole(answer):
                parts[number] = answer
                continue
            sent, counts = begun.pop(number)
            idle.append(by_number[number])
            if counts:
                times.append(clock() - sent)
                refused += not answer.startswith(b"HTTP/1.1 200")
    return times, refused


def whole(answer):
    if not answer:
        sys.exit("a connection was closed")
    head = answer.find(b"\r\n\r\n")
    if head < 0:
        return False
    length = LENGTH.search(answer, 0, head + 2)
    if length:
        return len(answer) >= head + 4 + int(length.group(1))
    return answer.endswith(b"0\r\n\r\n")


if __name__ == "__main__":
    main()
