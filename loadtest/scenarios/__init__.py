"""A file for each scenario: its limits, its riders, its API, and its claims."""

# Gateways on Redis that count exactly; in an outage they count alone instead.
EXACT = {"timeout": "5s", "on_failure": "closed"}
ALONE = {"timeout": "500ms", "on_failure": "local"}


def rider(client, headers, address="127.0.0.1", greedy=False):
    return {"client": client, "headers": headers, "address": address, "greedy": greedy}


def keyed(names, processes):
    """Riders with API keys, and the entries for the configuration."""
    made = processes.keys(names)
    riders = [rider(f"api_key:{name}", {"X-API-Key": key}) for name, (key, _) in zip(names, made)]
    return riders, [entry for _, entry in made]
