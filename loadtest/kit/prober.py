"""Asks at fixed times, however slow the answers: what a client sees while Locust is busy with itself.

Every probe has a connection of its own, and its time counts from when it was due. Standard library only.
"""

import asyncio
import json
import sys
import time


def now():
    return time.time_ns() // 1000


async def main(path):
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    interval = 1_000_000 // plan["rate"]
    start = now() + 100_000
    probes = set()
    with open(plan["requests"], "w", encoding="utf-8") as record:
        for number in range(plan["rate"] * plan["seconds"]):
            due = start + number * interval
            await asyncio.sleep(max(0, due - now()) / 1e6)
            probe = asyncio.create_task(ask(plan, number, due, record))
            probes.add(probe)
            probe.add_done_callback(probes.discard)
        await asyncio.gather(*probes)


async def ask(plan, number, due, record):
    me = plan["riders"][number % len(plan["riders"])]
    gateway = plan["gateways"][number % len(plan["gateways"])].removeprefix("http://")
    host, port = gateway.rsplit(":", 1)
    method, path, *bodies = plan["asks"][number % len(plan["asks"])]
    body = json.dumps(bodies[0]) if bodies else ""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {gateway}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += ["Content-Type: application/json"] if bodies else []
    lines += [f"{name}: {value}" for name, value in me["headers"].items()]
    lines += [f"X-Sent-At: {due}", "", body]
    status, retry_after = 0, 0
    try:
        head = await asyncio.wait_for(exchange(host, port, "\r\n".join(lines)), plan["patience"])
        first, *fields = head.split("\r\n")
        status = int(first.split(" ")[1])
        for field in fields:
            if field.lower().startswith("retry-after:"):
                retry_after = int(field.split(":")[1])
    except (OSError, ValueError, IndexError, asyncio.TimeoutError):
        pass  # status 0 says so
    row = (due, now(), me["client"], me["address"], method, path, status, retry_after)
    record.write("\t".join(map(str, row)) + "\n")


async def exchange(host, port, request):
    """The head of the answer, with all of it read."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request.encode())
        answer = await reader.read(-1)
        return answer.split(b"\r\n\r\n")[0].decode("latin-1")
    finally:
        writer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
