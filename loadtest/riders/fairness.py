"""Riders who request a ride two to five times a second, and one rider without a pause."""

from locust import between, task

from kit.riders import Rider


class Passenger(Rider):
    wait_time = between(0.2, 0.5)

    @task
    def ride(self):
        self.ask("POST", "/api/rides/request")
