-- Places that requests hold while they are under way. The other writing of crates/core/src/places.rs.
-- Kept as a sorted set by the time at which places lapse, with one member per request: "ID/lease" for one place,
-- "ID/lease*units" for more. A request's member is the same for as long as it runs, so every command may be repeated. The member
-- "extra" counts the units beyond one per member; its score is below 0, since it is no time. So the units are known from
-- how many members there are, and nothing has to be added up. Members of the first release have no lease in their name.

local places = {}

-- So many members are looked at in one call at most. What is beyond that is a member as good as any until the next call.
local MOST = 1000

local function text(number) return string.format('%d', number) end

local function member_of(id, units, lease)
  if units > 1 then return string.format('%s/%d*%d', id, lease, units) end
  return string.format('%s/%d', id, lease)
end

-- The units of a member.
local function units_of(member)
  return tonumber(string.match(member, '%*(%d+)$') or 1)
end

-- For how long a member may last from now on: for the longer of its own lease and this one.
local function lease_of(member, lease)
  return math.max(lease, tonumber(string.match(member, '/(%d+)') or 0))
end

-- The member that lapses last, and when; 0 if there is none.
local function last_of(key)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  return last[1], math.max(0, tonumber(last[2] or 0))
end

local function add_extra(key, units)
  if units == 0 then return end
  if tonumber(redis.call('ZINCRBY', key, text(-units), 'extra')) >= 0 then redis.call('ZREM', key, 'extra') end
end

-- `last` is when the last one lapses.
local function expire(key, now, last)
  if last > 0 then redis.call('PEXPIRE', key, math.max(1, math.ceil((last - now) / 1000) + 1)) end
end

-- Drops members that have lapsed; whether that were all of them, and their units beyond one per member.
local function sweep(key, now)
  local lapsed = redis.call('ZRANGEBYSCORE', key, '0', text(now), 'LIMIT', 0, MOST)
  if #lapsed == 0 then return true, 0 end
  local units = 0
  for _, member in ipairs(lapsed) do units = units + units_of(member) - 1 end
  redis.call('ZREM', key, unpack(lapsed))
  add_extra(key, -units)
  return #lapsed < MOST, units
end

-- Cuts members that would last for longer than they may: the clock stepped back. When the last one lapses then.
local function cut(key, now, lease, last_member, last)
  if last <= now + lease_of(last_member, lease) then return last end
  local ahead = redis.call('ZRANGEBYSCORE', key, '(' .. text(now + lease), '+inf', 'WITHSCORES', 'LIMIT', 0, MOST)
  for n = 1, #ahead, 2 do
    local most = now + lease_of(ahead[n], lease)
    if tonumber(ahead[n + 1]) > most then redis.call('ZADD', key, text(most), ahead[n]) end
  end
  last = select(2, last_of(key))
  expire(key, now, last)
  return last
end

-- How many are taken: those that have not lapsed. And when the last one lapses.
function places.taken(key, now, lease)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first[1] then return 0, 0 end
  local extra, swept = 0, true
  local lapse = tonumber(first[2])
  if lapse <= now then
    -- It has lapsed, or is no place.
    local dropped
    swept, dropped = sweep(key, now)
    if lapse < 0 then extra = math.max(0, -lapse - dropped) end
  end
  local last_member, last = last_of(key)
  if last > now + lease then last = cut(key, now, lease, last_member, last) end
  if not swept then return redis.call('ZCOUNT', key, '(' .. text(now), '+inf') + extra, last end
  local members = redis.call('ZCARD', key)
  if extra > 0 then members = members - 1 end
  return members + extra, last
end

-- Gives it a time to live if that was taken away, or is longer than it needs.
function places.bound(key, now)
  local _, last = last_of(key)
  bound(key, math.max(0, last - now))
end

-- Holds places of a request until `lapse`; they are taken if it has none yet, or none any more. `last` is when the last
-- place lapses, if the caller knows.
function places.hold(key, now, id, units, lease, lapse, last)
  local added = redis.call('ZADD', key, text(lapse), member_of(id, units, lease))
  if added == 1 then add_extra(key, units - 1) end
  if not last then last = select(2, last_of(key)) end
  expire(key, now, math.max(last, lapse))
end

-- Gives back what a request has; whether it had it.
function places.give_back(key, now, id, units, lease)
  if redis.call('ZREM', key, member_of(id, units, lease)) == 0 then return false end
  add_extra(key, 1 - units)
  local _, last = last_of(key)
  expire(key, now, last)
  return true
end
