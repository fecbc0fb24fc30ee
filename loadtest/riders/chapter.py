"""Riders of a published experiment: three ride requests to one fare estimate, each with JSON."""

from locust import between, task

from kit.riders import RUN, Rider

BODIES = RUN["extra"]["bodies"]


class Passenger(Rider):
    wait_time = between(0.1, 0.5)

    @task(3)
    def ride(self):
        self.ask("POST", "/api/rides/request", BODIES["/api/rides/request"])

    @task(1)
    def fare(self):
        self.ask("POST", "/api/fares/estimate", BODIES["/api/fares/estimate"])
