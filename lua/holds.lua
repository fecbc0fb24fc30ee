-- Holds: units that requests set aside until they end. Computes the same as crates/core/src/holds.rs. The holds of a key are a sorted set.
-- Each hold is a member "ID/lease*units", whose score is the time of its lapse. The score of the member "held" is the sum of all held units
-- as a negative number. So "held" is first, and the first two members give the sum and the first lapse. A hold's member never changes, so a
-- repeated renewal finds the member, and a repeated end finds none. Each decision has a new ID, so no hold is taken twice.
-- `own`: the parsed arguments of a limit.
-- `own.lease`: the time after which a hold lapses, in us. If it is below 0, the request is charged at once and takes no hold, but units
-- that other requests hold count as used.
-- `algorithm.frees`: the end or lapse of a hold charges no unit.
-- `algorithm.is_queue`: admitted requests wait for their turn.

local holds = {}

-- The most members that one call drops or cuts. Further lapsed holds count as held until a later call drops them.
local MOST = 1000

local function text(number) return string.format('%d', number) end

local function member_of(id, units, lease) return string.format('%s/%d*%d', id, lease, units) end

local function add_to_sum(held_key, units)
  if tonumber(redis.call('ZINCRBY', held_key, text(-units), 'held')) >= 0 then redis.call('DEL', held_key) end
end

-- Charges units, whether or not they fit. The check in front moves stamps to now if the clock stepped back.
local function charge(key, now, units, algorithm, quota)
  algorithm.commit(key, now, units, quota, algorithm.check(key, now, 1, quota))
end

-- Returns the time at which the last hold lapses; 0 without holds.
local function last_of(held_key)
  local last = redis.call('ZRANGE', held_key, -1, -1, 'WITHSCORES')
  return math.max(0, tonumber(last[2] or 0))
end

-- Sets the expiry of the holds to the time when the last hold has lapsed, and a charge at its lapse would no longer count.
local function expire(held_key, last, now, algorithm, quota)
  local period = math.max(last - now, algorithm.counts_for(last, now, quota))
  redis.call('PEXPIRE', held_key, math.max(1, math.ceil(period / 1000) + 1))
end

-- Drops lapsed holds, and charges their reserved units if a charge at the last of these lapses still counts. The charge has the time `now`,
-- because stamps never decrease. Returns the units of the dropped holds.
local function sweep(held_key, key, now, algorithm, quota)
  local lapsed = redis.call('ZRANGEBYSCORE', held_key, '0', text(now), 'WITHSCORES', 'LIMIT', 0, MOST)
  local members, units = {}, 0
  for n = 1, #lapsed, 2 do
    members[#members + 1] = lapsed[n]
    units = units + tonumber(string.match(lapsed[n], '%*(%d+)$'))
  end
  -- The charge comes first: if a command after it fails, the holds stay, and are charged again later.
  if algorithm.counts_for(tonumber(lapsed[#lapsed]), now, quota) > 0 then charge(key, now, units, algorithm, quota) end
  redis.call('ZREM', held_key, unpack(members))
  add_to_sum(held_key, -units)
  return units
end

-- Cuts each hold that would last longer than `lease` and than its own lease, because the clock stepped back. Returns the time at which the
-- last hold now lapses.
local function cut(held_key, now, lease, algorithm, quota)
  local ahead = redis.call('ZRANGEBYSCORE', held_key, '(' .. text(now + lease), '+inf', 'WITHSCORES', 'LIMIT', 0, MOST)
  for n = 1, #ahead, 2 do
    local most = now + math.max(lease, tonumber(string.match(ahead[n], '/(%d+)')))
    if tonumber(ahead[n + 1]) > most then redis.call('ZADD', held_key, text(most), ahead[n]) end
  end
  local last = last_of(held_key)
  expire(held_key, last, now, algorithm, quota)
  return last
end

-- Returns the held units, and the time at which the last hold lapses; drops lapsed holds first.
local function held_units(held_key, key, now, lease, algorithm, quota)
  local first = redis.call('ZRANGE', held_key, 0, 1, 'WITHSCORES')
  if not first[1] then return 0, 0 end
  -- If the first member is not "held", no script wrote this set, and this line fails.
  local held = -tonumber(first[1] == 'held' and first[2])
  if tonumber(first[4]) <= now then held = held - sweep(held_key, key, now, algorithm, quota) end
  local last = last_of(held_key)
  if last > now + lease then last = cut(held_key, now, lease, algorithm, quota) end
  return held, last
end

-- Returns `reset` or `retry_after` in us if `units` more units were charged now. `wait` is the current value of that field, before these
-- units are added. Units beyond the capacity do not count.
local function later(wait, units, now, algorithm, quota)
  if algorithm.time then return wait + algorithm.time(math.min(units, quota[1]), quota) end
  return math.max(wait, algorithm.counts_for(now, now, quota))
end

-- Returns the algorithm's verdict with held units counted as used. `left_in_front`: the units that are left of the limit in front. Adds
-- three fields: `held`, the held units; `last`, the time at which the last hold lapses; `settling`, whether only held units refuse the
-- request.
function holds.check(held_key, key, now, own, left_in_front)
  local algorithm, cost, quota = own.algorithm, own.cost, own.quota
  if algorithm.covers and not algorithm.covers(now, quota) then return nil end
  local held, last = held_units(held_key, key, now, math.abs(own.lease), algorithm, quota)
  local units, capacity = cost + held, quota[1]
  local verdict = algorithm.check(key, now, math.min(units, capacity), quota, left_in_front)
  verdict.held, verdict.last = held, last
  if held > 0 then
    local left = math.max(0, verdict.remaining - held)
    verdict.allowed = cost <= left
    verdict.settling = not verdict.allowed and cost <= verdict.remaining and not algorithm.frees
    verdict.remaining = left
    -- As if all held units were charged now.
    if units > capacity then
      verdict.retry_after = later(verdict.retry_after, units - capacity, now, algorithm, quota)
    end
    verdict.matters = verdict.matters or verdict.reset
    verdict.reset = later(verdict.reset, held, now, algorithm, quota)
    if verdict.allowed and algorithm.is_queue then verdict.delay = verdict.reset end
  end
  return verdict
end

-- Takes a hold, or charges at once if the lease is below 0. A check must have admitted the request. The ID has no hold under this key yet.
function holds.commit(held_key, key, now, own, verdict, id)
  local algorithm, cost, lease, quota = own.algorithm, own.cost, own.lease, own.quota
  if lease > 0 then
    local lapse = now + lease
    redis.call('ZADD', held_key, text(lapse), member_of(id, cost, lease), text(-verdict.held - cost), 'held')
    expire(held_key, math.max(verdict.last, lapse), now, algorithm, quota)
    -- The bucket of a share may have less left than the cost, if it only observes.
    verdict.remaining = math.max(0, verdict.remaining - cost)
    verdict.reset = later(verdict.reset, cost, now, algorithm, quota)
    return
  end
  algorithm.commit(key, now, cost, quota, verdict)
  if verdict.held > 0 then verdict.reset = later(verdict.reset, verdict.held, now, algorithm, quota) end
end

-- Sets the expiry of holds that do not change, if they have no expiry or too late an expiry.
function holds.keep(held_key, now, own, verdict)
  if verdict.held == 0 then return end
  local last = verdict.last
  bound(held_key, math.max(last - now, own.algorithm.counts_for(last, now, own.quota)))
end

-- Renews a hold, so that it lapses one lease from now. If the hold is missing, adds it again, even beyond the limit, because its request is
-- running.
function holds.renew(held_key, id, now, own)
  if redis.call('ZADD', held_key, text(now + own.lease), member_of(id, own.cost, own.lease)) == 1 then
    add_to_sum(held_key, own.cost)
  end
  expire(held_key, last_of(held_key), now, own.algorithm, own.quota)
end

-- Ends a hold: drops it, and charges the used units, whether or not they fit. Returns false if it is missing. If a command fails, for
-- example without permission, Redis keeps the effects of earlier commands. So the hold is put back, and the gateway sends its end again.
function holds.finish(held_key, key, id, used, now, own)
  local member = member_of(id, own.cost, own.lease)
  -- Adds 0 to the score, which returns the time of the lapse. If ZADD is not permitted, the hold could not be put back, so the end fails
  -- here, before any change.
  local lapse = redis.call('ZADD', held_key, 'XX', 'INCR', '0', member)
  if not lapse then return false end
  redis.call('ZREM', held_key, member)
  local done, why = pcall(function()
    add_to_sum(held_key, -own.cost)
    if used > 0 then charge(key, now, used, own.algorithm, own.quota) end
  end)
  if not done then
    redis.call('ZADD', held_key, lapse, member)
    add_to_sum(held_key, own.cost)
    expire(held_key, last_of(held_key), now, own.algorithm, own.quota)
    error(why, 0)
  end
  local last = last_of(held_key)
  if last > 0 then expire(held_key, last, now, own.algorithm, own.quota) end
  return true
end
