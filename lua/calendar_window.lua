-- calendar_window: a `fixed_window` whose windows are the days or months of a time zone. Computes the same as
-- crates/core/src/calendar_window.rs. Numbers of a quota: limit, the start of a window, the ends of this window and of the next two
-- (window.lua). If `now` is in neither of the first two windows, `check` returns nil.

local calendar_window = { numbers = 5, commit = window.commit }

-- Whether `now` is in the first or the second window of the quota.
function calendar_window.covers(now, quota)
  return now >= quota[2] and now < quota[4]
end

function calendar_window.counts_for(at, now, quota)
  local _, start, finish, next_finish, last_finish = unpack(quota)
  if at < start then return start - now end
  if at < finish then return finish - now end
  if at < next_finish then return next_finish - now end
  return last_finish - now
end

function calendar_window.check(key, now, cost, quota)
  local limit, start, finish, next_finish, last_finish = unpack(quota)
  if now < start or now >= next_finish then return nil end
  if now < finish then return window.check(key, now, cost, limit, start, finish, next_finish) end
  return window.check(key, now, cost, limit, finish, next_finish, last_finish)
end

algorithms.calendar_window = calendar_window
