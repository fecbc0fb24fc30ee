"""A calm time, and then all riders at once: three rides to one fare, and one rider in twenty who does not wait."""

from locust import LoadTestShape, between, task

from kit.riders import RUN, Rider

EXTRA = RUN["extra"]


class Passenger(Rider):
    wait_time = between(0.1, 0.5)

    @task(3)
    def ride(self):
        self.ask("POST", "/api/rides/request")

    @task(1)
    def fare(self):
        self.ask("GET", "/api/fares/estimate")


class Surge(LoadTestShape):
    def tick(self):
        now = self.get_run_time()
        if now >= RUN["seconds"]:
            return None
        if now < EXTRA["calm"]:
            return EXTRA["calm_riders"], 100
        return len(RUN["riders"]), EXTRA["spawn_rate"]
