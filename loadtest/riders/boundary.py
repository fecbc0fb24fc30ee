"""A rider for each algorithm: a burst right before an edge, a burst right after it, then a request after Retry-After."""

import json
import time

import gevent
from locust import constant, task

from kit.riders import RUN, Rider

EXTRA = RUN["extra"]
NOTES = open(RUN["notes"], "w", encoding="utf-8", buffering=1)  # noqa: SIM115  (as long as the process)


class Edge(Rider):
    wait_time = constant(0)
    concurrency = 2 * EXTRA["burst"]

    @task
    def edge(self):
        window = EXTRA["window"]
        # Two windows without a request come first, so that no earlier request counts.
        edge = (int(time.time() / window) + 4) * window
        gevent.sleep(edge - EXTRA["before"] - time.time())
        before = self.burst()
        gevent.sleep(max(0, edge + EXTRA["after"] - time.time()))
        after = self.burst()
        answered = []
        for burst in (before, after):
            gevent.joinall(burst)
            answered.append([one.value for one in burst if one.value])
        last = max((answer for answer in answered[1] if answer[0] == 429), key=lambda answer: answer[2], default=None)
        status_then = None
        if last:
            gevent.sleep(max(0, last[2] + last[1] - time.time()))
            status_then, _ = self.ask("GET", self.me["path"])
        note = {
            "client": self.me["client"],
            "edge": edge * 1_000_000,
            "answered": int(max(answer[2] for answer in answered[0]) * 1e6),
            "admitted_before": sum(answer[0] == 200 for answer in answered[0]),
            "admitted_after": sum(answer[0] == 200 for answer in answered[1]),
            "waited": last and last[1],
            "status_then": status_then,
        }
        NOTES.write(json.dumps(note) + "\n")

    def burst(self):
        return [gevent.spawn(self.one) for _ in range(EXTRA["burst"])]

    def one(self):
        """Returns status, Retry-After, and the time of the answer."""
        return (*self.ask("GET", self.me["path"]), time.time())
