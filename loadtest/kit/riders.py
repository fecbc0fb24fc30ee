"""The common parts of riders, for Locust: their identity, their idea of a success, and their records."""

import itertools
import json
import os
import time

from locust import FastHttpUser, events

with open(os.environ["LOADTEST_RUN"], encoding="utf-8") as file:
    RUN = json.load(file)

RECORD = open(RUN["requests"], "w", encoding="utf-8")  # noqa: SIM115  (as long as the process)
NEXT = itertools.count()


@events.quit.add_listener
def close(**_):
    RECORD.close()


class Rider(FastHttpUser):
    """One of the run's riders, each with an identity of its own."""

    abstract = True
    host = RUN["gateways"][0]
    network_timeout = connection_timeout = RUN["patience"]
    max_retries = 0

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        number = next(NEXT)
        self.me = RUN["riders"][number % len(RUN["riders"])]
        # With several gateways each request takes the next one, as behind a balancer.
        if self.me["greedy"]:
            self.wait_time = lambda: RUN["extra"].get("greedy_wait", 0)
        gateways = RUN["gateways"]
        self.gateways = itertools.islice(itertools.cycle(gateways), number % len(gateways), None)

    def ask(self, method, path, body=None):
        """Sends one request, with `body` as JSON; a refusal with a Retry-After from 1 s up is a success. Returns status and Retry-After."""
        sent = time.time_ns() // 1000
        headers = {**self.me["headers"], "X-Sent-At": str(sent)}
        url = next(self.gateways) + path
        with self.client.request(method, url, name=f"{method} {path}", headers=headers, json=body, catch_response=True) as answer:
            status = answer.status_code
            told = (answer.headers or {}).get("Retry-After", "") if status == 429 else ""
            retry_after = int(told) if told.isdigit() else 0
            if status == 429 and retry_after >= 1:
                answer.success()
            elif status == 429:
                answer.failure(f"429 with Retry-After {told!r}")
        done = time.time_ns() // 1000
        me = self.me
        row = (sent, done, me["client"], me["address"], method, path, status, retry_after)
        RECORD.write("\t".join(map(str, row)) + "\n")
        return status, retry_after
