-- fair_share: the share of one member in a bucket that many members share. Computes the same as crates/core/src/fair_share.rs, with the
-- same operations on doubles in the same order. Numbers of a quota: capacity (of the shared bucket), units (that the bucket refills in a
-- window), weight, window.

local fair_share = { numbers = 4, is_share = true }

local STEPS, HALVINGS = 1000, 10

-- Returns half of the shared bucket, in units. While it is left, no member is refused.
local function half(quota) return math.ceil(quota[1] / 2) end

-- Returns the units that the member may still use, rounded up, if `left` units of the shared bucket are left.
local function remaining_with(left, start, current, previous, now, quota)
  local capacity, units, weight, window = quota[1], quota[2], quota[3], quota[4]
  if left >= half(quota) then return capacity end
  -- The last unit is for members without counted use.
  local part = math.max(0, left - 1) / capacity
  local level = math.floor(8 * units * weight * part * part * STEPS)
  local rest = STEPS - math.floor(math.max(0, now - start) / (window / STEPS))
  if current == 0 and previous == 0 then return math.min(math.max(1, math.ceil(level / STEPS)), capacity) end
  local free = math.max(0, level - current * STEPS)
  -- A count beyond the level may be so large that a product with it is not exact. A quotient is exact.
  if previous > 0 and rest > math.floor(free / previous) then return 0 end
  return math.min(math.ceil((free - previous * rest) / STEPS), capacity)
end

-- Returns the time until half of the shared bucket is left, in us. Then every cost fits.
local function until_half(left, quota)
  return math.ceil(math.max(0, half(quota) - left) / (quota[2] / quota[4]))
end

-- Returns the time until a refused cost fits, in us, if no other request comes: the shared bucket refills meanwhile.
local function wait(left, start, current, previous, cost, now, quota)
  local window = quota[4]
  local rate = quota[2] / window
  local fits, too_short = until_half(left, quota), 0
  for _ = 1, HALVINGS do
    local time = math.floor((too_short + fits) / 2)
    local later = now + time
    local then_start, then_current, then_previous = window_pair.settled(start, current, previous, window, later)
    local refilled = left + math.floor(time * rate)
    if cost <= remaining_with(refilled, then_start, then_current, then_previous, later, quota) then
      fits = time
    else
      too_short = time
    end
  end
  return fits
end

function fair_share.counts_for(at, now, quota)
  local window = quota[4]
  return at - at % window + 2 * window - now
end

-- `left`: the units that are left of the shared bucket, which the limit in front of this one has checked. While at least half is left, the
-- verdict is `free`: the state of the member does not matter, and is not read or written.
function fair_share.check(key, now, cost, quota, left)
  local capacity, window = quota[1], quota[4]
  if left and left >= half(quota) then
    return { allowed = cost <= capacity, remaining = capacity, reset = 0, retry_after = 0, delay = 0, free = true }
  end
  left = left or capacity
  local start, current, previous = window_pair.load(key, window, now)
  local remaining = remaining_with(left, start, current, previous, now, quota)
  local allowed = cost <= remaining
  local reset = window_pair.reset(start, current, previous, window, now)
  -- A larger cost may wait for longer than the member's own use counts.
  if not allowed then reset = math.max(reset, until_half(left, quota)) end
  return {
    allowed = allowed,
    remaining = remaining,
    reset = reset,
    retry_after = allowed and 0 or wait(left, start, current, previous, cost, now, quota),
    delay = 0,
    start = start,
    current = current,
    previous = previous,
  }
end

function fair_share.commit(key, now, cost, quota, verdict)
  verdict.remaining = math.max(0, verdict.remaining - cost)
  if verdict.free then return end
  window_pair.commit(key, now, cost, quota[4], verdict)
end

algorithms.fair_share = fair_share
