-- leaky_bucket: a queue that drains at a constant rate. Computes the same as crates/core/src/bucket.rs.
-- Numbers of a quota: queue, weight, pay, full (debt.lua).

local leaky_bucket = {
  numbers = 4,
  is_queue = true,
  commit = debt.commit,
  keep = debt.keep,
  counts_for = debt.counts_for,
  time = debt.time,
}

function leaky_bucket.check(key, now, cost, quota)
  local verdict = debt.check(key, now, cost, quota)
  -- `reset` does not include the cost of this request yet, so `reset` is the time until its turn.
  if verdict.allowed then verdict.delay = verdict.reset end
  return verdict
end

algorithms.leaky_bucket = leaky_bucket
