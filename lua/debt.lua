-- A debt that is paid off continuously: what both buckets share. The other writing of crates/core/src/debt.rs.
-- A record "owed at weight", or "owed at weight beyond": how much of what is owed was charged beyond the capacity.
-- Numbers of a quota: capacity, weight, pay, full.

local debt = {}

-- The largest debt that stays exact: also with one payment more, and no longer than 2^52 us.
local function most_owed(full_debt, pay)
  local most = 9007199254740991 - pay
  -- Twice 2^52 is more than that already.
  if pay == 1 then most = 4503599627370496 end
  return math.max(most, full_debt)
end

-- A part of a debt whose units weighed `old_weight`, in this quota's weights: rounded up, and `most` at most.
local function weighed(owed, old_weight, weight, most)
  if owed == 0 or old_weight == weight then return math.min(owed, most) end
  local whole = math.floor(owed / old_weight)
  if whole >= math.floor(most / weight) then return most end
  local rest, part = owed % old_weight, weight
  if rest <= math.floor(9007199254740991 / weight) then part = math.ceil(rest * weight / old_weight) end
  return whole * weight + part
end

-- What is owed at `now`, in this quota's weights, from when on it is paid off, and what of it was charged beyond the
-- capacity, which is paid off first.
local function settle(owed, at, old_weight, beyond, now, capacity, weight, pay)
  local full_debt = capacity * weight
  if beyond > 0 then
    local within = weighed(math.max(0, owed - beyond), old_weight, weight, full_debt)
    -- A smaller quota does not forgive it.
    beyond = weighed(beyond, old_weight, weight, most_owed(full_debt, pay) - within)
    owed = within + beyond
  else
    owed = weighed(owed, old_weight, weight, full_debt)
  end
  local paid = math.min(math.max(0, now - at), math.ceil(owed / pay)) * pay
  return math.max(0, owed - paid), math.max(at, now), math.max(0, beyond - paid)
end

-- How long until `weight` of what is owed is paid off, in us from `now`; nothing takes no time.
local function time_to_pay(weight, at, now, pay)
  if weight == 0 then return 0 end
  return at - now + math.ceil(weight / pay)
end

local function save(key, period, owed, at, weight, beyond)
  record(key, period, owed, at, weight, beyond > 0 and beyond or nil)
end

function debt.counts(at, now, quota)
  return at + quota[4] - now
end

function debt.check(key, now, cost, quota)
  local capacity, weight, pay, full = quota[1], quota[2], quota[3], quota[4]
  local owed, at, beyond = 0, now, 0
  local old_owed, old_at, old_weight, old_beyond = recall(key, '^(%d+) (%d+) (%d+) ?(%d*)$')
  if old_owed then
    -- A stamp more than a period ahead is a clock that stepped back: it is moved, what is owed is kept.
    local stepped = old_at > now + full
    if stepped then old_at = now end
    owed, at, beyond = settle(old_owed, old_at, old_weight, old_beyond or 0, now, capacity, weight, pay)
    if stepped then save(key, time_to_pay(owed, at, now, pay), owed, at, weight, beyond) end
  end
  local room = capacity * weight - owed
  local missing = math.max(0, cost * weight - room)
  return {
    allowed = missing == 0,
    remaining = math.floor(math.max(0, room) / weight),
    reset = time_to_pay(owed, at, now, pay),
    retry_after = time_to_pay(missing, at, now, pay),
    delay = 0,
    owed = owed,
    at = at,
    beyond = beyond,
  }
end

-- By how much the debt is above the capacity, in units rounded up.
function debt.excess(verdict, _, quota)
  local weight = quota[2]
  return math.ceil(math.max(0, verdict.owed - quota[1] * weight) / weight)
end

-- Who came first is paid off first: so much of the charge is still owed as will be paid off until the receipt, which was
-- rounded up; the rest was paid off in others' place.
function debt.give_back(key, now, cost, quota, receipt)
  local weight, pay, full = quota[2], quota[3], quota[4]
  local verdict = debt.check(key, now, cost, quota)
  local left = math.min(math.max(0, receipt - verdict.at - 1), full)
  local unpaid = math.min(left * pay, cost * weight)
  if unpaid > 0 and verdict.owed > 0 then
    local owed = math.max(0, verdict.owed - unpaid)
    save(key, time_to_pay(owed, verdict.at, now, pay), owed, verdict.at, weight, math.min(verdict.beyond, owed))
  else
    bound(key, verdict.reset)
  end
end

-- The cost may be one that does not fit, and be known afterwards.
function debt.commit(key, now, cost, quota, verdict)
  local weight, pay = quota[2], quota[3]
  local full_debt = quota[1] * weight
  local owed, beyond = verdict.owed + cost * weight, verdict.beyond
  if owed > full_debt then
    -- A sum that is not exact is beyond the most as well.
    owed = math.min(owed, most_owed(full_debt, pay))
    beyond = math.max(beyond, owed - full_debt)
  end
  verdict.remaining = verdict.remaining - cost
  verdict.reset = time_to_pay(owed, verdict.at, now, pay)
  save(key, verdict.reset, owed, verdict.at, weight, beyond)
end
