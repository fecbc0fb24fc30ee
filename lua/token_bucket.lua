-- token_bucket: allows bursts up to the capacity, and a sustained rate. Computes the same as crates/core/src/bucket.rs. Numbers of a quota:
-- capacity, weight, pay, full (debt.lua).

algorithms.token_bucket = {
  numbers = 4,
  check = debt.check,
  commit = debt.commit,
  keep = debt.keep,
  counts_for = debt.counts_for,
  time = debt.time,
}
