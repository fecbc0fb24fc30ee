-- calendar_window: so many per day or month. The other writing of crates/core/src/calendar_window.rs.
-- A record "start count". Numbers of a quota: limit, the start of a window, and the ends of that and the next two;
-- `check` answers nothing if the clock is in neither of the first two.

local calendar_window = { numbers = 5 }

-- Whether the clock is in one of the first two windows.
function calendar_window.covers(now, quota)
  return now >= quota[2] and now < quota[4]
end

function calendar_window.counts(at, now, quota)
  local _, start, finish, next_finish, last_finish = unpack(quota)
  if at < start then return start - now end
  if at < finish then return finish - now end
  if at < next_finish then return next_finish - now end
  return last_finish - now
end

function calendar_window.check(key, now, cost, quota)
  local limit, start, finish, next_finish = unpack(quota)
  if now < start or now >= next_finish then return nil end
  if now >= finish then start, finish, next_finish = finish, next_finish, quota[5] end
  local count = 0
  local old_start, old_count = recall(key, '^(%d+) (%d+)$')
  if old_start then
    if old_start == start then
      count = old_count
    elseif old_start >= finish then
      -- The clock stepped back: from the next window, or from beyond, and then the count moves to the current one.
      count = old_count
      if old_start == finish then
        start, finish = finish, next_finish
      else
        record(key, finish - now, start, count)
      end
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

function calendar_window.commit(key, now, cost, quota, verdict)
  verdict.remaining = verdict.remaining - cost
  -- A cost that is known afterwards may be of any size.
  record(key, verdict.reset, verdict.start, math.min(verdict.count + cost, 9007199254740991))
end

algorithms.calendar_window = calendar_window
