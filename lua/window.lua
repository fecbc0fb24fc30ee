-- One count per window, for fixed windows and windows of a calendar. Computes the same as crates/core/src/window.rs. A
-- record is "start count".

local window = {}

-- Checks in the window from `start` to `finish`. The next window ends at `next_finish`.
function window.check(key, now, cost, limit, start, finish, next_finish)
  local count = 0
  local old_start, old_count = recall(key, '^(%d+) (%d+)$')
  if old_start and old_start >= start then
    count = old_count
    if old_start > finish then
      -- The clock stepped back by more than a window: the count moves to the current window.
      record(key, finish - now, start, count)
    else
      if old_start == finish then finish = next_finish end
      start = old_start
    end
  end
  local remaining = math.max(0, limit - count)
  local left = finish - now
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

function window.commit(key, now, cost, quota, verdict)
  verdict.remaining = verdict.remaining - cost
  -- A cost that an answer sets may be of any size.
  record(key, verdict.reset, verdict.start, math.min(verdict.count + cost, 9007199254740991))
end
