-- fixed_window: so many per window. The other writing of crates/core/src/fixed_window.rs.
-- A record "start count". Numbers of a quota: limit, window.

local fixed_window = { numbers = 2 }

local function save(key, start, count, window, now)
  record(key, start + window - now, start, count)
end

function fixed_window.counts(at, now, quota)
  local window = quota[2]
  return at - at % window + window - now
end

function fixed_window.check(key, now, cost, quota)
  local limit, window = quota[1], quota[2]
  local start, count = now - now % window, 0
  local old_start, old_count = recall(key, '^(%d+) (%d+)$')
  if old_start then
    if old_start > now + window then
      -- The clock stepped back by more than a window: the count moves to the current one.
      count = old_count
      save(key, start, count, window, now)
    elseif old_start >= start then
      start, count = old_start, old_count
    end
  end
  local remaining = math.max(0, limit - count)
  local left = start + window - now
  local allowed = cost <= remaining
  return {
    allowed = allowed,
    remaining = remaining,
    reset = left,
    retry_after = allowed and 0 or left,
    delay = 0,
    start = start,
    count = count,
  }
end

function fixed_window.commit(key, now, cost, quota, verdict)
  verdict.remaining = verdict.remaining - cost
  -- A cost that is known afterwards may be of any size.
  save(key, verdict.start, math.min(verdict.count + cost, 9007199254740991), quota[2], now)
end

algorithms.fixed_window = fixed_window
