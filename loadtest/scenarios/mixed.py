"""Six endpoints of a ride-hailing API under five algorithms, and riders of every kind of identity, some of them greedy."""

from kit.verdict import judge_answers, judge_limits, judge_record
from scenarios import rider

SECONDS = 60
RIDERS = 60
API = {"workers": 32, "service_time": 0.01, "queue": 2000}
PATIENCE = 10

# As in examples/ride-hailing, with a shorter queue of drivers' positions, because these riders must fill it. A rider that
# waits in it sends no other request.
LIMITS = {
    "ride-burst": {"token_bucket": {"capacity": 20, "refill": "10/s"}},
    "map-burst": {"token_bucket": {"capacity": 40, "refill": "20/s"}},
    "driver-location": {"leaky_bucket": {"queue": 10, "drain": "20/s"}, "per": []},
    "trip-history": {"sliding_window_counter": {"limit": 60, "window": "1m"}},
    "zone-stats": {"fixed_window": {"limit": 30, "window": "1m"}},
    "ip-guard": {"token_bucket": {"capacity": 200, "refill": "100/s"}, "per": ["ip"]},
}
ROUTES = {
    "/api/rides/request": "ride-burst",
    "/api/fares/estimate": "ride-burst",
    "/api/drivers/location": "driver-location",
    "/api/drivers/nearby": "map-burst",
    "/api/trips/history": "trip-history",
    "/api/admin/zones/stats": "zone-stats",
}
# The method and the weight of each route, in the order of ROUTES.
TASKS = list(zip(["POST", "GET", "PUT", "GET", "GET", "GET"], ROUTES, [3, 1, 4, 3, 1, 1]))
EXTRA = {"tasks": TASKS, "greedy_wait": 0.01}


def prepare(api, processes, options):
    count = options.riders or RIDERS
    names = [f"rider-{number}" for number in range(0, count, 3)]
    made = dict(zip(names, processes.keys(names)))
    riders = []
    for number in range(count):
        name, address = f"rider-{number}", f"198.18.{number // 250}.{number % 250 + 1}"
        headers = {"X-Forwarded-For": address}
        if number % 3 == 0:
            riders.append(rider(f"api_key:{name}", {**headers, "X-API-Key": made[name][0]}, address))
        elif number % 3 == 1:
            riders.append(rider(f"user_id:{name}", {**headers, "X-User-Id": name}, address))
        else:
            riders.append(rider(f"ip:{address}", headers, address))
    # Every tenth rider is greedy, and uses one endpoint only, so that each limit refuses requests.
    for number, greedy in enumerate(riders[::10]):
        greedy.update(greedy=True, only=TASKS[number % len(TASKS)])
    config = {
        "trusted_proxies": ["127.0.0.1"],
        "clients": [
            {"api_key": {"keys": [entry for _, entry in made.values()]}},
            {"user_id": {"header": "X-User-Id"}},
            {"ip": {}},
        ],
        "limits": LIMITS,
        "always": ["ip-guard"],
        "routes": [
            {"name": path.removeprefix("/api/").replace("/", "-"), "path": path, "upstream": api, "limits": [limit]}
            for path, limit in ROUTES.items()
        ],
    }
    return config, riders


def judge(verdict, rules, run):
    judge_answers(verdict, rules, run.requests)
    judge_limits(verdict, rules, run.requests, run.arrivals, run.outage, run.least)
    judge_record(verdict, run.requests, run.arrivals)
    for name in LIMITS:
        if name != "ip-guard":
            paths = [path for path, limit in ROUTES.items() if limit == name]
            refused = sum(request.status == 429 for request in run.requests if request.path in paths)
            verdict.say(refused, f"{name} was seen to act: it refused {refused:,}")
