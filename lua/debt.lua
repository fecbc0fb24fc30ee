-- A debt that is paid off continuously: what both buckets share. The other writing of crates/core/src/debt.rs.
-- A record "owed at weight", or "owed at weight beyond": how much of what is owed was charged beyond the capacity. If the
-- quota that charged last counted less than was owed, the whole debt follows: what was owed at an earlier time, with all
-- that was charged since: "owed at weight beyond".
-- Numbers of a quota: capacity, weight, pay, full.

local debt = {}

local PATTERN = '^(%d+) (%d+) (%d+) ?(%d*)$'
local WITH_WHOLE = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$'

-- The largest debt that stays exact: also with one payment more, and no longer than 2^52 us.
local function most_owed(full_debt, pay)
  local most = 9007199254740991 - pay
  -- Twice 2^52 is more than that already.
  if pay == 1 then most = 4503599627370496 end
  return math.max(most, full_debt)
end

-- What stands for all that would not be exact in this quota's weights: more than the capacity.
local function most_known(full_debt, pay)
  return math.max(9007199254740991 - pay, full_debt + 1)
end

-- A part of a debt whose units weighed `from`, in weights of `to`: rounded up, and `most` at most.
local function weighed(owed, from, to, most)
  if owed == 0 or from == to then return math.min(owed, most) end
  local units = math.floor(owed / from)
  if units >= math.floor(most / to) then return most end
  local rest, part = owed % from, to
  if rest <= math.floor(9007199254740991 / to) then part = math.ceil(rest * to / from) end
  return units * to + part
end

-- The same, rounded down.
local function weighed_down(owed, from, to)
  if from == to then return owed end
  local units = math.floor(owed / from)
  if units >= math.floor(9007199254740991 / to) then return 9007199254740991 end
  local rest, part = owed % from, 0
  if rest <= math.floor(9007199254740991 / to) then part = math.floor(rest * to / from) end
  return units * to + part
end

-- What is owed in this quota's weights, and what of it was charged beyond the capacity.
local function reweighed(owed, beyond, old_weight, weight, most)
  if beyond == 0 then return weighed(owed, old_weight, weight, most), 0 end
  local within = math.max(0, owed - beyond)
  beyond = weighed(beyond, old_weight, weight, most)
  return weighed(within, old_weight, weight, most - beyond) + beyond, beyond
end

-- How much of what is owed is paid off within `elapsed`.
local function paid_of(owed, elapsed, pay)
  return math.min(math.max(0, elapsed), math.ceil(owed / pay)) * pay
end

-- How long until `weight` of what is owed is paid off, in us from `now`; nothing takes no time.
local function time_to_pay(weight, at, now, pay)
  if weight == 0 then return 0 end
  return at - now + math.ceil(weight / pay)
end

-- How long it takes to pay off what is `owed`: 2^52 us if that is not known.
local function span(owed, pay, most)
  if owed >= most then return 4503599627370496 end
  return math.min(math.ceil(owed / pay), 4503599627370496)
end

-- How long a debt of other weights matters, which is `all` in this quota's: until it is paid off at this rate, or at the rate
-- under which it was made, whose least is 1.
local function lasts(owed, at, all, now, pay, most)
  return at - now + math.min(owed, span(all, pay, most))
end

-- What is counted of a debt at its own time, in this quota's weights: of what others have charged at most the capacity, and
-- all that is beyond it; what of that was charged beyond the capacity; and how large the whole debt is then.
local function counted(all, beyond, whole, at, full_debt, weight, pay, most)
  local limit = most_owed(full_debt, pay)
  local owed = math.min(math.min(all - beyond, full_debt) + beyond, limit)
  if not whole then return owed, math.min(beyond, owed), 0 end
  local whole_all, whole_beyond = reweighed(whole[1], whole[4], whole[3], weight, most)
  local paid = paid_of(whole_all, at - whole[2], pay)
  whole_beyond = math.max(0, whole_beyond - paid)
  -- Of what is not known it is not known either what is left.
  if whole_all < most then whole_all = math.max(0, whole_all - paid) end
  local whole_owed = math.min(whole_all - whole_beyond, full_debt) + whole_beyond
  owed = math.max(owed, math.min(whole_owed, limit))
  return owed, math.min(math.max(beyond, whole_beyond), owed), whole_all
end

-- For how long the whole debt matters.
local function whole_lasts(whole, now, weight, pay, most)
  local all = reweighed(whole[1], whole[4], whole[3], weight, most)
  return lasts(whole[1], whole[2], all, now, pay, most)
end

local function save(key, period, owed, at, weight, beyond, whole)
  if not whole and beyond == 0 then beyond = nil end
  record(key, period, owed, at, weight, beyond, whole)
end

function debt.counts(at, now, quota)
  return at + quota[4] - now
end

-- Beside what every check answers: what is owed and from when on it is paid off, what of it was charged beyond the capacity,
-- the whole debt if more was owed than is counted here, and for how long the key matters.
function debt.check(key, now, cost, quota)
  local capacity, weight, pay, full = quota[1], quota[2], quota[3], quota[4]
  local full_debt = capacity * weight
  local owed, at, beyond, whole, matters = 0, now, 0, nil, 0
  local old_owed, old_at, old_weight, old_beyond, old_whole = recall(key, PATTERN, WITH_WHOLE)
  if old_owed then
    old_beyond = old_beyond or 0
    local most = most_known(full_debt, pay)
    local all, whole_all
    all, beyond = reweighed(old_owed, old_beyond, old_weight, weight, most)
    -- A stamp more than a period ahead is a clock that stepped back: it is moved, what is owed is kept.
    local is_moved = old_at > now + full
    if is_moved then
      old_at, matters = now, span(all, pay, most)
      if old_whole then
        old_whole = { old_whole[1], math.min(old_whole[2], now), old_whole[3], old_whole[4] }
        matters = math.max(matters, whole_lasts(old_whole, now, weight, pay, most))
      end
    end
    owed, beyond, whole_all = counted(all, beyond, old_whole, old_at, full_debt, weight, pay, most)
    if is_moved then
      matters = math.max(matters, math.ceil(owed / pay))
      save(key, matters, old_owed, now, old_weight, old_beyond, old_whole)
    end
    local elapsed = now - old_at
    if all > owed or whole_all > owed then
      -- What is to be kept beside the debt if it is written: that of which more would be left.
      local leaves = all > owed and span(all, pay, most) > elapsed
      if whole_all > owed and span(whole_all, pay, most) > elapsed then
        -- Of three quotas the middle one has counted less as well.
        whole = { old_whole[1], leaves and old_at or old_whole[2], old_whole[3], old_whole[4] }
      elseif leaves then
        whole = { old_owed, old_at, old_weight, old_beyond }
      end
    end
    -- What is not written is kept for as long as the plan that wrote it may need it: 1 is the least that it pays.
    if old_weight ~= weight or all > owed then matters = math.max(matters, old_at - now + old_owed) end
    if old_whole then matters = math.max(matters, old_whole[2] - now + old_whole[1]) end
    matters = math.min(matters, 4503599627370496)
    local paid = paid_of(owed, elapsed, pay)
    owed, at, beyond = math.max(0, owed - paid), math.max(old_at, now), math.max(0, beyond - paid)
  end
  local room = full_debt - owed
  local missing = math.max(0, cost * weight - room)
  local reset = time_to_pay(owed, at, now, pay)
  return {
    allowed = missing == 0,
    remaining = math.floor(math.max(0, room) / weight),
    reset = reset,
    retry_after = time_to_pay(missing, at, now, pay),
    delay = 0,
    owed = owed,
    at = at,
    beyond = beyond,
    whole = whole,
    matters = math.max(matters, reset),
  }
end

-- By how much the debt is above the capacity, in units rounded up.
function debt.excess(verdict, _, quota)
  local weight = quota[2]
  return math.ceil(math.max(0, verdict.owed - quota[1] * weight) / weight)
end

-- Writes a debt, with the whole one if there is one, for as long as that matters. Returns what is owed: of a whole debt as
-- much is counted again as at any charge.
local function put(key, now, quota, owed, at, beyond, whole)
  local weight, pay, full_debt = quota[2], quota[3], quota[1] * quota[2]
  local all, lasting = owed, 0
  if whole then
    local most = most_known(full_debt, pay)
    lasting = whole_lasts(whole, now, weight, pay, most)
    all = counted(owed, beyond, whole, at, full_debt, weight, pay, most)
  end
  save(key, math.max(time_to_pay(all, at, now, pay), lasting), owed, at, weight, beyond, whole)
  return all
end

-- Who came first is paid off first: so much of the charge is still owed as will be paid off until the receipt, which was
-- rounded up; the rest was paid off in others' place.
function debt.give_back(key, now, cost, quota, receipt)
  local weight, pay, full = quota[2], quota[3], quota[4]
  local verdict = debt.check(key, now, cost, quota)
  local left = math.min(math.max(0, receipt - verdict.at - 1), full)
  local unpaid = math.min(left * pay, cost * weight)
  if unpaid > 0 and verdict.owed > 0 then
    local owed, whole = math.max(0, verdict.owed - unpaid), verdict.whole
    if whole then
      local whole_owed = math.max(0, whole[1] - weighed_down(unpaid, weight, whole[3]))
      whole = { whole_owed, whole[2], whole[3], math.min(whole[4], whole_owed) }
    end
    put(key, now, quota, owed, verdict.at, math.min(verdict.beyond, owed), whole)
  else
    bound(key, verdict.matters)
  end
end

-- How fast a quota pays off, as a word.
function debt.pace(quota)
  return string.format('%d/%d', quota[2], quota[3])
end

-- How long so many units take to be paid off.
function debt.time(cost, quota)
  return math.ceil(cost * quota[2] / quota[3])
end

-- The receipt by which a reservation of the time `charged` is given back if its own does not tell what is owed: charges of
-- several paces may have paid it off, or too many others have given back. So much of it is surely still owed as the fastest
-- would have left if nothing else had been owed.
function debt.bounded(receipt, paces, cost, quota, charged, now)
  local weight, pay = quota[2], quota[3]
  local unpaid, elapsed = cost * weight, math.max(0, now - charged)
  for _, pace in ipairs(paces) do
    local its_weight, its_pay = string.match(pace, '^(%d+)/(%d+)$')
    its_weight, its_pay = its_weight + 0, its_pay + 0
    local left = 0
    if cost <= math.floor(9007199254740991 / its_weight) then
      local owed = cost * its_weight
      if elapsed < math.ceil(owed / its_pay) then left = weighed_down(owed - elapsed * its_pay, its_weight, weight) end
    end
    unpaid = math.min(unpaid, left)
  end
  return math.min(receipt, now + 1 + math.floor(unpaid / pay))
end

-- The cost may be one that does not fit, and be known afterwards. Then it is beyond the capacity; but not if it was admitted
-- under a larger quota.
function debt.commit(key, now, cost, quota, verdict)
  local weight, pay = quota[2], quota[3]
  local full_debt = quota[1] * weight
  local owed, beyond, whole = verdict.owed + cost * weight, verdict.beyond, verdict.whole
  if owed > full_debt then
    -- A sum that is not exact is beyond the most as well.
    owed = math.min(owed, most_owed(full_debt, pay))
    if not verdict.is_within then beyond = math.max(beyond, owed - full_debt) end
  end
  if whole then
    local whole_owed = math.min(whole[1] + cost * whole[3], 9007199254740991)
    local more = weighed(beyond - verdict.beyond, weight, whole[3], whole_owed - whole[4])
    whole = { whole_owed, whole[2], whole[3], whole[4] + more }
  end
  owed = put(key, now, quota, owed, verdict.at, beyond, whole)
  verdict.remaining = verdict.remaining - cost
  if whole then verdict.remaining = math.floor(math.max(0, full_debt - owed) / weight) end
  verdict.reset = time_to_pay(owed, verdict.at, now, pay)
end
