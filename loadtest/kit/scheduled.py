"""Sends requests at the times of a schedule, however slow the answers. Standard library only.

The schedule is a JSON file: `gateways`, `clients` (the header value of each), `paths`, and `due`: rows of microseconds after the start and
the number of the client. Each row is one request to each path. The record has a line per request, as records.requests reads it.
"""

import asyncio
import gc
import json
import re
import sys
import time

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
RETRY_AFTER = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)
PATIENCE = 5  # seconds that late answers have in the end


def now():
    return time.time_ns() // 1000


class Connection(asyncio.Protocol):
    """A kept connection to a gateway, with at most one request on its way."""

    def __init__(self, idle, record):
        self.idle, self.record = idle, record
        self.answer, self.asked = b"", None

    def connection_made(self, transport):
        self.transport = transport

    def ask(self, row, request):
        self.asked, self.answer = (now(), *row), b""
        self.transport.write(request % self.asked[0])

    def data_received(self, data):
        self.answer += data
        head, end, body = self.answer.partition(b"\r\n\r\n")
        if not end or len(body) < int(LENGTH.search(head).group(1)):
            return
        sent, client, path = self.asked
        wait = RETRY_AFTER.search(head)
        row = (sent, now(), client, "127.0.0.1", "GET", path, head[9:12].decode(), wait.group(1).decode() if wait else 0)
        self.record.append(row)
        self.asked = None
        self.idle.append(self)


async def main(path):
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    loop, record = asyncio.get_running_loop(), []
    hosts = [gateway.removeprefix("http://") for gateway in plan["gateways"]]
    idle = [[] for _ in hosts]
    heads = "GET {} HTTP/1.1\r\nHost: {}\r\nX-User-Id: {}\r\nX-Sent-At: %d\r\n\r\n"
    gc.disable()
    start = now() + 200_000
    for number, (due, client) in enumerate(plan["due"]):
        early = start + due - now()
        # Also a late request lets answers be read.
        await asyncio.sleep(max(0, early) / 1e6)
        name, at = plan["clients"][client], number % len(hosts)
        for to in plan["paths"]:
            if not idle[at]:
                host, port = hosts[at].rsplit(":", 1)
                _, connection = await loop.create_connection(lambda: Connection(idle[at], record), host, int(port))
                idle[at].append(connection)
            request = heads.format(to, hosts[at], name)
            idle[at].pop().ask((f"user_id:{name}", to), request.encode())
    wanted, last = len(plan["due"]) * len(plan["paths"]), now() + PATIENCE * 1_000_000
    while len(record) < wanted and now() < last:
        await asyncio.sleep(0.01)
    with open(plan["requests"], "w", encoding="utf-8") as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in record)
    if len(record) < wanted:
        sys.exit(f"{wanted - len(record):,} of {wanted:,} requests had no answer")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
