"""The processes of attacks.py: crowds of slow clients, a good one, and the API behind the gateway."""

import asyncio
import signal
import socket
import time

HEADER, SLOW = 10, 20
GET = b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome of it"
# For each kind: its number, its first bytes, its later bytes, and the time after which it must be gone.
KINDS = {
    "slowloris": (5000, b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"y", HEADER),
    "silent": (5000, b"", b"", HEADER),
    "preface": (5000, b"PRI * HTTP/2.0\r\n\r\n", b"", HEADER),
    "slow bodies": (2000, POST, b"", SLOW),
    "slow readers": (2000, GET % b"large", b"", SLOW),
    # A byte every few seconds.
    "trickling bodies": (2000, POST, b"y", SLOW),
    # The first half of a greeting.
    "half handshakes": (2000, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 100, b"", HEADER),
}
# The number that joins in a second. The gateway first takes a megabyte for each.
JOINING = {"slow readers": 200}
DRIP = 5
RATE = 50
LARGE, PART = 8 << 20, b"x" * (64 << 10)


def good_client(port, seconds):
    """Sends requests at fixed times, on a kept connection. Returns the time of each answer from its due time, and the failures."""
    begun, times, failed = time.monotonic(), [], 0
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    for nth in range(seconds * RATE):
        due = begun + nth / RATE
        time.sleep(max(0, due - time.monotonic()))
        try:
            connection.sendall(GET % b"good")
            if not connection.recv(4096).startswith(b"HTTP/1.1 200 "):
                raise ConnectionError
            times.append(time.monotonic() - due)
        except OSError:
            failed += 1
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    return times, failed


class Attacker(asyncio.Protocol):
    """One hostile connection. Another one takes its place when it is closed."""

    def __init__(self, crowd, first):
        self.crowd, self.first = crowd, first

    def connection_made(self, transport):
        self.begun, self.transport = time.monotonic(), transport
        self.crowd.there.add(self)
        transport.write(self.first)
        if self.crowd.kind == "slow readers":
            transport.pause_reading()

    def connection_lost(self, _):
        self.crowd.there.discard(self)
        self.crowd.gone(time.monotonic() - self.begun)


class Crowd:
    """A fixed number of one kind, until the end. Slow readers do not see that they are cut off, and do not come back."""

    def __init__(self, kind, port):
        self.kind, self.port, self.there = kind, port, set()
        self.lives, self.stayed = [], []
        self.goes_on, self.joining = True, set()
        _, self.first, self.more, _ = KINDS[kind]

    async def join(self):
        one = socket.socket()
        if self.kind == "slow readers":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(one, ("127.0.0.1", self.port))
        await loop.create_connection(lambda: Attacker(self, self.first), sock=one)

    def gone(self, life):
        if self.goes_on:
            self.lives.append(life)
            joining = asyncio.ensure_future(self.join())
            self.joining.add(joining)
            joining.add_done_callback(self.joining.discard)

    async def run(self, count, seconds):
        end = time.monotonic() + seconds
        for nth in range(count):
            await self.join()
            if nth % 10 == 9:
                await asyncio.sleep(10 / JOINING.get(self.kind, 1000))
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(DRIP, left))
            for one in list(self.there):
                if self.more and time.monotonic() - one.begun > 1:
                    one.transport.write(self.more)
        self.goes_on = False
        for one in list(self.there):
            self.stayed.append(time.monotonic() - one.begun)
            one.transport.abort()
        return self.lives, self.stayed


def attack(kind, port, count, seconds):
    """Returns the lifetimes of connections that were cut off, and of connections that stayed to the end."""
    return asyncio.run(Crowd(kind, port).run(count, seconds))


class Api(asyncio.Protocol):
    """Answers `/large` with 8 MiB and all else with little, and notes how long large answers were not taken."""

    lives = []

    def connection_made(self, transport):
        self.transport, self.begun, self.left, self.is_full = transport, None, 0, False

    def data_received(self, data):
        if data.startswith(b"GET /large"):
            self.begun, self.left = time.monotonic(), LARGE
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE)
            self.write_on()
        elif data.startswith(b"GET "):
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def write_on(self):
        while self.left and not self.is_full:
            self.left -= len(PART)
            self.transport.write(PART)

    def pause_writing(self):
        self.is_full = True

    def resume_writing(self):
        self.is_full = False
        self.write_on()

    def connection_lost(self, _):
        if self.begun:
            self.lives.append(time.monotonic() - self.begun)


def serve(port):
    async def until_stopped():
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        # Else the system would keep megabytes of each answer that is not read, and have no room for other answers.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(PART))
        server = await asyncio.get_running_loop().create_server(Api, sock=listener, backlog=4096)
        await stopped.wait()
        server.close()

    asyncio.run(until_stopped())
    return Api.lives
