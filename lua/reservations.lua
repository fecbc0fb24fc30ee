-- The records of reservations: charges of requests whose costs are known afterwards. The other writing of
-- crates/core/src/reservations.rs.
-- Kept as a sorted set by the time at which they lapse, with one member per reservation: "ID" for one unit, "ID*units" for
-- more. The member "extra" counts the units beyond one per member; its score is below 0, since it is no time. What has
-- lapsed stays for as long as its charge counts. The score of the member "swept" is the time up to which what has lapsed is
-- no part of "extra". So the units are known from how many members there are, and nothing has to be added up.
-- Members "weight/pay" with the score PACE say how fast charges were paid off by whoever has reserved since there are records.
-- Members "ID:charged:receipt:time" say what settled reservations gave back since then: when the reservation was made, its
-- receipt (of two that were made at one time the earlier one has the smaller), and how long what it gave back would have
-- taken to pay off. The score is that of refund_at. Debts are paid off in the order of their
-- charges, so reservations that were made after it are paid off earlier than their receipts say.

local reservations = {}

-- So many members are looked at in one call at most. What is beyond that is left to the next call.
local MOST = 1000
-- A record stays for this many leases after it has lapsed, also if its charge counts no longer: a gateway that was cut off
-- may still settle it.
local RETAINED = 6

local PACE = '-9007199254740991'
-- If there are more, nothing is given back.
local MOST_PACES = 16
-- The latest refunds that a key knows.
local MOST_REFUNDS = 1000

local function text(number) return string.format('%d', number) end

-- The score of what was given back at this time, in us. Refunds lie between paces and "extra", the latest first.
local function refund_at(at) return text(-4503599627370496 - at) end
local FIRST_REFUND = refund_at(0)

local function member_of(id, units)
  if units == 1 then return id end
  return id .. '*' .. text(units)
end

-- The units beyond one of a member.
local function extra_of(member)
  return tonumber(string.match(member, '%*(%d+)$') or 1) - 1
end

local function score(key, member)
  return tonumber(redis.call('ZSCORE', key, member) or 0)
end

local function add_extra(key, units)
  if units == 0 then return end
  if tonumber(redis.call('ZINCRBY', key, text(-units), 'extra')) >= 0 then redis.call('ZREM', key, 'extra') end
end

-- Without records nothing else matters.
local function forget_if_empty(key)
  local count = redis.call('ZCOUNT', key, '0', '+inf')
  if count == 0 or count == 1 and score(key, 'swept') > 0 then redis.call('DEL', key) end
end

-- For how long a record matters that lapses at `lapse`, in us.
local function matters(algorithm, quota, lapse, now, lease)
  return math.max(algorithm.counts(lapse, now, quota), lapse + RETAINED * lease - now)
end

-- A record with this time is the last one to lapse.
local function expire(key, algorithm, quota, lapse, now, lease)
  redis.call('PEXPIRE', key, math.max(1, math.ceil(matters(algorithm, quota, lapse, now, lease) / 1000) + 1))
end

-- Takes what has lapsed out of "extra"; what is left of that.
local function sweep(key, now, extra)
  local swept = score(key, 'swept')
  if swept >= now then return extra end
  local lapsed = redis.call('ZRANGEBYSCORE', key, '(' .. text(swept), text(now), 'WITHSCORES', 'LIMIT', 0, MOST)
  local count = #lapsed / 2
  if count == 0 then return extra end
  local edge, units = now, 0
  if count == MOST then
    -- There may be more that lapse with the last one. It is left to the next call, unless all lapse together.
    edge = tonumber(lapsed[2 * count]) - 1
    if tonumber(lapsed[2]) > edge then edge = edge + 1 end
  end
  for n = 1, count do
    if tonumber(lapsed[2 * n]) <= edge then units = units + extra_of(lapsed[2 * n - 1]) end
  end
  redis.call('ZADD', key, text(edge), 'swept')
  add_extra(key, -units)
  return extra - units
end

-- Drops records that are too old to matter.
local function forget(key, algorithm, quota, now, lease)
  local first = redis.call('ZRANGEBYSCORE', key, '0', text(now), 'WITHSCORES', 'LIMIT', 0, 1)
  if #first == 0 or matters(algorithm, quota, tonumber(first[2]), now, lease) > 0 then return end
  local lapsed = redis.call('ZRANGEBYSCORE', key, '0', text(now), 'WITHSCORES', 'LIMIT', 0, MOST)
  local old, swept, units = {}, score(key, 'swept'), 0
  for n = 1, #lapsed, 2 do
    local lapse = tonumber(lapsed[n + 1])
    if matters(algorithm, quota, lapse, now, lease) > 0 then break end
    old[#old + 1] = lapsed[n]
    if lapse > swept then units = units + extra_of(lapsed[n]) end
  end
  redis.call('ZREM', key, unpack(old))
  add_extra(key, -units)
  if algorithm.pace then forget_if_empty(key) end
end

-- The units whose reservations have not lapsed. One that would last for longer than a lease is cut.
function reservations.unsettled(key, algorithm, quota, now, lease)
  local last, most = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES'), now + lease
  if #last == 0 then return 0 end
  if tonumber(last[2]) > most then
    local ahead = redis.call('ZRANGEBYSCORE', key, '(' .. text(most), '+inf', 'LIMIT', 0, MOST)
    for _, member in ipairs(ahead) do redis.call('ZADD', key, text(most), member) end
    expire(key, algorithm, quota, most, now, lease)
  end
  local extra = -score(key, 'extra')
  if extra > 0 then extra = sweep(key, now, extra) end
  return redis.call('ZCOUNT', key, '(' .. text(now), '+inf') + extra
end

-- Gives it a time to live if that was taken away, or is longer than it needs.
function reservations.bound(key, algorithm, quota, now, lease)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  bound(key, #last > 0 and math.max(0, matters(algorithm, quota, tonumber(last[2]), now, lease)) or 0)
end

function reservations.add(key, id, units, algorithm, quota, now, lease)
  forget(key, algorithm, quota, now, lease)
  if algorithm.pace then
    redis.call('ZADD', key, text(now + lease), member_of(id, units), PACE, algorithm.pace(quota))
  else
    redis.call('ZADD', key, text(now + lease), member_of(id, units))
  end
  add_extra(key, units - 1)
  expire(key, algorithm, quota, now + lease, now, lease)
end

-- By how much a reservation of the time `charged` is paid off earlier; nothing if that is not known any more.
local function earlier(key, charged, receipt)
  local refunds = redis.call('ZRANGEBYSCORE', key, '(' .. PACE, refund_at(charged))
  if #refunds == MOST_REFUNDS then
    -- All that are known were given back after it: there may have been more.
    local last = redis.call('ZRANGEBYSCORE', key, '(' .. refund_at(charged), FIRST_REFUND, 'LIMIT', 0, 1)
    if #last == 0 then return nil end
  end
  local sum = 0
  for _, refund in ipairs(refunds) do
    local its_charged, its_receipt, time = string.match(refund, ':(%d+):(%d+):(%d+)$')
    its_charged, its_receipt = its_charged + 0, its_receipt + 0
    if its_charged < charged or its_charged == charged and its_receipt < receipt then sum = sum + time end
  end
  return sum
end

-- The receipt by which a reservation of the time `charged` is given back, of which so much was not used. The receipt of the
-- decision does not know what others have given back since then, nor that charges of other plans pay off more.
function reservations.bounded(key, receipt, unused, algorithm, quota, charged, now)
  local pace = algorithm.pace
  if not pace then return receipt end
  local known = earlier(key, charged, receipt)
  if known then
    receipt = math.max(0, receipt - known)
  else
    receipt = algorithm.bounded(receipt, { pace(quota) }, unused, quota, charged, now)
  end
  local paces = redis.call('ZRANGEBYSCORE', key, PACE, PACE, 'LIMIT', 0, MOST_PACES + 1)
  if #paces <= 1 then return receipt end
  if #paces > MOST_PACES then return 0 end
  return algorithm.bounded(receipt, paces, unused, quota, charged, now)
end

-- Notes what a settled reservation gives back by the receipt `bounded`, as long as there are others.
function reservations.refunded(key, id, unused, receipt, bounded, algorithm, quota, charged, now)
  if not algorithm.pace or redis.call('ZCOUNT', key, '0', '+inf') == 0 then return end
  local time = math.min(algorithm.time(unused, quota), math.max(0, bounded - now))
  if time == 0 then return end
  local matters = algorithm.counts(now, now, quota)
  local old = redis.call('ZRANGEBYSCORE', key, refund_at(math.max(0, now - matters)), FIRST_REFUND)
  if #old > 0 then redis.call('ZREM', key, unpack(old)) end
  redis.call('ZADD', key, refund_at(now), id .. ':' .. text(charged) .. ':' .. text(receipt) .. ':' .. text(time))
  local oldest = redis.call('ZRANGEBYSCORE', key, '(' .. PACE, FIRST_REFUND, 'LIMIT', MOST_REFUNDS, 1)
  if #oldest > 0 then redis.call('ZREM', key, oldest[1]) end
end

-- Removes the record of a reservation and runs `charge`; returns whether there was a record. If a command fails, for example for lack
-- of a permission, Redis keeps the effects of the commands before it. So the record is put back: the settlement is sent again.
function reservations.settle(key, id, units, algorithm, quota, now, lease, charge)
  local member = member_of(id, units)
  -- Adds 0: reads when the record lapses, and fails here if it could not be put back.
  local lapse = tonumber(redis.call('ZADD', key, 'XX', 'INCR', '0', member) or 0)
  if lapse == 0 then return false end
  local extra = units > 1 and lapse > score(key, 'swept') and units - 1 or 0
  redis.call('ZREM', key, member)
  local subtracted = 0
  local done, why = pcall(function()
    add_extra(key, -extra)
    subtracted = extra
    charge()
  end)
  if not done then
    redis.call('ZADD', key, text(lapse), member)
    add_extra(key, subtracted)
    -- If it was the only member, the set is new.
    pcall(reservations.bound, key, algorithm, quota, now, tonumber(lease))
    error(why, 0)
  end
  if algorithm.pace then forget_if_empty(key) end
  return true
end

-- Lets a reservation last for a lease from now; whether it has a record.
function reservations.extend(key, id, units, algorithm, quota, now, lease)
  local member = member_of(id, units)
  local lapse = score(key, member)
  if lapse == 0 then return false end
  if units > 1 and lapse <= score(key, 'swept') then add_extra(key, units - 1) end
  redis.call('ZADD', key, text(now + lease), member)
  expire(key, algorithm, quota, now + lease, now, lease)
  return true
end
