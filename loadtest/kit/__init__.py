"""What the scenarios share: processes, riders, models of the limits, and verdicts."""
