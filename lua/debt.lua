-- A debt that is paid off continuously, for both buckets. Computes the same as crates/core/src/debt.rs. A record is "owed at weight": the
-- owed parts, the time from which they are paid off, and the number of parts in a unit. Numbers of a quota: capacity, weight, pay (parts
-- per us), full (us in which a full debt is paid off). If the quota changes, the debt keeps its units, and is paid off at the new rate.

local debt = {}

-- Earlier versions wrote one or five more numbers, which are ignored.
local PATTERN = '^(%d+) (%d+) (%d+) ?[%d ]*$'

-- Returns the largest debt in parts. With one more `pay` it is still an exact integer, and it is paid off within 2^52 us. It is `full_debt`
-- at least.
local function most_owed(full_debt, pay)
  local most = 9007199254740991 - pay
  -- A pay of 2 or more pays off at least 2^53 parts in 2^52 us.
  if pay == 1 then most = 4503599627370496 end
  return most > full_debt and most or full_debt
end

-- Converts a debt from `from` parts per unit to `to` parts per unit. The result is rounded up, and is at most `most`.
local function weighed(owed, from, to, most)
  if owed == 0 or from == to then return owed < most and owed or most end
  local units = math.floor(owed / from)
  if units >= math.floor(most / to) then return most end
  local rest, part = owed % from, to
  if rest <= math.floor(9007199254740991 / to) then part = math.ceil(rest * to / from) end
  return units * to + part
end

-- Returns the us from `now` until `parts` are paid off, if payment begins at `at`; 0 if there are no parts.
local function time_to_pay(parts, at, now, pay)
  if parts == 0 then return 0 end
  return at - now + math.ceil(parts / pay)
end

function debt.counts_for(at, now, quota)
  return at + quota[4] - now
end

-- Returns a verdict with two more fields: `owed`, the debt in parts, and `at`, the time from which it is paid off.
function debt.check(key, now, cost, quota)
  local capacity, weight, pay, full = quota[1], quota[2], quota[3], quota[4]
  local full_debt = capacity * weight
  local owed, at = 0, now
  local old_owed, old_at, old_weight = recall(key, PATTERN)
  if old_owed then
    owed = weighed(old_owed, old_weight, weight, most_owed(full_debt, pay))
    if old_at > now + full then
      -- The stamp is more than `full` ahead, because the clock stepped back. The stamp moves to now, and the debt is kept.
      old_at = now
      record(key, time_to_pay(owed, now, now, pay), old_owed, now, old_weight)
    end
    local elapsed = now - old_at
    if elapsed < 0 then
      at = old_at
    elseif elapsed > owed / pay then
      owed = 0
    else
      owed = owed - elapsed * pay
      if owed < 0 then owed = 0 end
    end
  end
  local room = full_debt - owed
  local missing = cost * weight - room
  if missing < 0 then missing = 0 end
  return {
    allowed = missing == 0,
    remaining = room > 0 and math.floor(room / weight) or 0,
    reset = time_to_pay(owed, at, now, pay),
    retry_after = time_to_pay(missing, at, now, pay),
    delay = 0,
    owed = owed,
    at = at,
  }
end

-- The longest period for which this call keeps each key, in us.
local kept = {}

-- Bounds the time to live of a key that is not written, and prolongs it until the debt is paid off at the present rate. A request at a
-- faster rate may have set it.
function debt.keep(key, period)
  bound(key, period)
  if period <= (kept[key] or 0) or unwritten and unwritten[key] then return end
  kept[key] = period
  redis.call('PEXPIRE', key, math.ceil(period / 1000) + 1, 'GT')
end

-- Returns the time in which these units are paid off, in us.
function debt.time(cost, quota)
  return math.ceil(cost * quota[2] / quota[3])
end

-- Charges a cost. If an answer sets the cost, it may exceed the units left.
function debt.commit(key, now, cost, quota, verdict)
  local weight, pay = quota[2], quota[3]
  -- A sum that is too large to be exact is above `most`, too, and is cut to `most`.
  local owed, most = verdict.owed + cost * weight, most_owed(quota[1] * weight, pay)
  if owed > most then owed = most end
  local reset = time_to_pay(owed, verdict.at, now, pay)
  record(key, reset, owed, verdict.at, weight)
  verdict.remaining, verdict.reset = verdict.remaining - cost, reset
end
