-- A debt that is paid off continuously: what both buckets share. The other writing of crates/core/src/debt.rs.
-- A record "owed at weight". Numbers of a quota: capacity, weight, pay, full.

local debt = {}

-- What is owed at `now`, in this quota's weights, and from when on it is paid off.
local function settle(owed, at, weight, now, capacity, own_weight, pay, full)
  local most = capacity * own_weight
  if weight ~= own_weight then
    -- The quota was changed: whole units are kept, the rest of one rounds up.
    local whole = math.floor(owed / weight)
    if whole >= capacity then
      owed = most
    else
      local rest, part = owed % weight, own_weight
      if rest <= math.floor(9007199254740991 / own_weight) then part = math.ceil(rest * own_weight / weight) end
      owed = whole * own_weight + part
    end
  end
  local elapsed = math.min(math.max(0, now - at), full)
  return math.max(0, math.min(owed, most) - elapsed * pay), math.max(at, now)
end

-- How long until `weight` of what is owed is paid off, in us from `now`; nothing takes no time.
local function time_to_pay(weight, at, now, pay)
  if weight == 0 then return 0 end
  return at - now + math.ceil(weight / pay)
end

function debt.counts(at, now, quota)
  return at + quota[4] - now
end

function debt.check(key, now, cost, quota)
  local capacity, weight, pay, full = quota[1], quota[2], quota[3], quota[4]
  local owed, at = 0, now
  local old_owed, old_at, old_weight = recall(key, '^(%d+) (%d+) (%d+)$')
  if old_owed then
    -- A stamp more than a period ahead is a clock that stepped back: it is moved, what is owed is kept.
    local stepped = old_at > now + full
    if stepped then old_at = now end
    owed, at = settle(old_owed, old_at, old_weight, now, capacity, weight, pay, full)
    if stepped then record(key, time_to_pay(owed, at, now, pay), owed, at, weight) end
  end
  local room = capacity * weight - owed
  local missing = math.max(0, cost * weight - room)
  return {
    allowed = missing == 0,
    remaining = math.floor(room / weight),
    reset = time_to_pay(owed, at, now, pay),
    retry_after = time_to_pay(missing, at, now, pay),
    delay = 0,
    owed = owed,
    at = at,
  }
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
    record(key, time_to_pay(owed, verdict.at, now, pay), owed, verdict.at, weight)
  else
    bound(key, verdict.reset)
  end
end

function debt.commit(key, now, cost, quota, verdict)
  local weight, pay = quota[2], quota[3]
  local owed = verdict.owed + cost * weight
  verdict.remaining = verdict.remaining - cost
  verdict.reset = time_to_pay(owed, verdict.at, now, pay)
  record(key, verdict.reset, owed, verdict.at, weight)
end
