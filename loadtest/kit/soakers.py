"""The clients of soak.py, and the API behind the gateway: all in one process, with the standard library only."""

import asyncio
import collections
import contextlib
import random
import socket
import struct
import time

LARGE = b"x" * (1 << 20)
GOOD_ROUTES = ["burst", "burst", "burst", "leased", "log", "logins", "places", "queue"]
CLIENTS = 50
CONNECTIONS = 32
PATIENCE = 30  # seconds that a good client waits for an answer
KEEP_ALIVE = 45  # seconds after which the API closes an idle connection; the gateway takes none that was idle for 30


class Counts:
    """The requests of clients, and their answers; both by route."""

    def __init__(self):
        self.sent = collections.Counter()
        self.failed = collections.Counter()
        self.answers = collections.defaultdict(collections.Counter)
        self.hostile = collections.Counter()


class Api:
    """Answers each request after a moment: 401 to some logins, a megabyte under /rude/large, `ok` to all others."""

    async def listen(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=1024)
        self.url = "http://127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        try:
            while True:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), KEEP_ALIVE)
                target = head.split(b" ", 2)[1]
                await discard(reader, head)
                if target.startswith(b"/leavers"):
                    await asyncio.sleep(0.1)
                is_wrong = target.startswith(b"/logins") and random.random() < 0.3
                status = b"401 Unauthorized" if is_wrong else b"200 OK"
                body = LARGE if target.startswith(b"/rude/large") else b"ok"
                writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body)))
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, ConnectionError):
            pass
        finally:
            writer.close()


async def discard(reader, head):
    """Reads the body that a head announces."""
    head = head.lower()
    if b"transfer-encoding: chunked" in head:
        while (size := int(await reader.readline(), 16)) > 0:
            await reader.readexactly(size + 2)
        await reader.readline()
    elif b"content-length: " in head:
        await reader.readexactly(int(head.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0]))


class Good:
    """Clients that send at a fixed rate together, on connections that they keep, and read every answer."""

    def __init__(self, address, rate, counts):
        self.host, port = address.removeprefix("http://").split(":")
        self.port, self.rate, self.counts = int(port), rate, counts

    async def run(self, end):
        await asyncio.gather(*(self.one(end, nth) for nth in range(CONNECTIONS)))

    async def one(self, end, nth):
        every = CONNECTIONS / self.rate
        due = time.monotonic() + nth / self.rate
        streams = None
        while (due := due + every) < end:
            await asyncio.sleep(max(0, due - time.monotonic()))
            route, client = random.choice(GOOD_ROUTES), int(CLIENTS * random.random() ** 3)
            self.counts.sent[route] += 1
            try:
                if streams is None:
                    streams = await asyncio.open_connection(self.host, self.port, local_addr=("127.0.0.2", 0))
                status, closes = await asyncio.wait_for(self.ask(*streams, route, client), PATIENCE)
                self.counts.answers[route][status] += 1
                if closes:
                    streams = close(streams)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                self.counts.failed[route] += 1
                streams = close(streams)
        close(streams)

    async def ask(self, reader, writer, route, client):
        body = b"a" * random.choice([0, 0, 100, 10_000])
        head = f"POST /{route}/{client} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.{client}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await discard(reader, head)
        return int(head.split(b" ", 2)[1]), b"\r\nconnection: close" in head


def close(streams):
    if streams:
        streams[1].close()


class Hostile:
    """Crowds that are slow, silent, deaf, rude or gone. A client that is cut off comes back."""

    def __init__(self, address, counts):
        self.host, port = address.removeprefix("http://").split(":")
        self.port, self.counts = int(port), counts

    async def run(self, end):
        crowds = [
            (40, self.slow_head),
            (40, self.silent),
            (20, self.slow_body),
            (10, self.slow_reader),
            (5, self.leaver),
            (2, self.garbage),
            (2, self.large_head),
            (2, self.rapid_reset),
            (2, self.deaf),
        ]
        await asyncio.gather(*(self.again(end, act) for count, act in crowds for _ in range(count)))

    async def again(self, end, act):
        while (left := end - time.monotonic()) > 0:
            self.counts.hostile[act.__name__.replace("_", " ")] += 1
            one = socket.socket()
            one.setblocking(False)
            if act in (self.slow_reader, self.deaf):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            loop = asyncio.get_running_loop()
            try:
                await loop.sock_connect(one, (self.host, self.port))
                await asyncio.wait_for(act(loop, one), left + 1)
            except (OSError, asyncio.TimeoutError):
                pass
            finally:
                one.close()
            # A pause: without it this would only be a contest for the processor.
            await asyncio.sleep(random.uniform(0.2, 0.6))

    async def until_closed(self, loop, one):
        with contextlib.suppress(OSError):
            while await loop.sock_recv(one, 65536):
                pass

    async def slow_head(self, loop, one):
        await loop.sock_sendall(one, b"GET /rude/head HTTP/1.1\r\nHost: a\r\n")
        closed = asyncio.create_task(self.until_closed(loop, one))
        while not closed.done():
            await asyncio.wait([closed], timeout=2)
            await loop.sock_sendall(one, b"X: y\r\n")

    async def silent(self, loop, one):
        await self.until_closed(loop, one)

    async def slow_body(self, loop, one):
        await loop.sock_sendall(one, b"POST /rude/body HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc")
        closed = asyncio.create_task(self.until_closed(loop, one))
        while not closed.done():
            await asyncio.wait([closed], timeout=5)
            await loop.sock_sendall(one, b"d")

    async def slow_reader(self, loop, one):
        await loop.sock_sendall(one, b"GET /rude/large HTTP/1.1\r\nHost: a\r\n\r\n")
        while await loop.sock_recv(one, 64):
            await asyncio.sleep(1)

    async def leaver(self, loop, one):
        """Sends a request, and leaves before the API has answered."""
        self.counts.sent["leavers"] += 1
        await loop.sock_sendall(one, b"GET /leavers/one HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(0.05)

    async def garbage(self, loop, one):
        await loop.sock_sendall(one, random.choice([b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nA b: c\r\n\r\n"]))
        await self.until_closed(loop, one)

    async def large_head(self, loop, one):
        await loop.sock_sendall(one, b"GET /rude/large-head HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 200_000)
        await self.until_closed(loop, one)

    async def rapid_reset(self, loop, one):
        """Opens streams of HTTP/2 and takes each back at once."""
        # :method GET, :scheme http, :path /, and :authority a as a literal.
        head = b"\x82\x86\x84\x41\x01a"
        frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
        for stream in range(1, 401, 2):
            frames += frame(1, 5, stream, head) + frame(3, 0, stream, struct.pack(">I", 8))
        await loop.sock_sendall(one, frames)
        await self.until_closed(loop, one)

    async def deaf(self, loop, one):
        """Sends a thousand requests, and reads no answer."""
        await loop.sock_sendall(one, b"GET /rude/deaf HTTP/1.1\r\nHost: a\r\n\r\n" * 1000)
        await asyncio.sleep(30)


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
