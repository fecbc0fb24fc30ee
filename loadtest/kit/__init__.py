"""The common parts of the scenarios: processes, riders, models of the limits, and verdicts."""
