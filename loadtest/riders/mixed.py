"""Riders and drivers who use all endpoints of an API."""

import random

from locust import between, task

from kit.riders import RUN, Rider

TASKS = RUN["extra"]["tasks"]


class Passenger(Rider):
    wait_time = between(0.1, 0.5)

    @task
    def something(self):
        often = [weight for _, _, weight in TASKS]
        method, path, _ = self.me.get("only") or random.choices(TASKS, weights=often)[0]
        self.ask(method, path)
