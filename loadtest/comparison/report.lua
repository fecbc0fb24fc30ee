-- For wrk: prints its results as one line of JSON. Times are in microseconds.
function done(summary, latency)
  local errors = summary.errors
  print(string.format(
    '{"requests": %d, "microseconds": %d, "refused": %d, "broken": %d, "bytes": %d, "p50": %d, "p99": %d}',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout, summary.bytes, latency:percentile(50), latency:percentile(99)))
end
