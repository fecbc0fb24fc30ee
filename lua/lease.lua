-- Lends a gateway a slice of one limit's budget, settles what it has spent of it, and decides one request on the way.
-- README.md beside it has the calling contract. Beside the limit's own state stands a hash with one field per gateway that
-- holds a slice: "session call settled out lapse".

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whoever asked has given up by then and let something else decide: nothing may be charged any more.
if now > tonumber(ARGV[1]) then return { now, -1 } end

local state, slices = KEYS[1], KEYS[2]
local algorithm, cost, quota = algorithms[ARGV[2]], tonumber(ARGV[3]), {}
for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[6 + n]) end
local position = 6 + algorithm.numbers
local id, told = ARGV[position + 1], {}
for n = 1, 9 do told[n] = tonumber(ARGV[position + 1 + n]) end
local session, call, spent, unsettled, kept, known_lapse, wanted, term, checks = unpack(told)

-- Charges what was spent at `at`, whether or not it still fits: it did when it was lent.
local function charge(units, at)
  algorithm.commit(state, at, units, quota, algorithm.check(state, at, 1, quota))
end

local function save(holder, slice)
  local text = string.format(
    '%d %d %d %d %d', slice.session, slice.call, slice.settled, slice.out, slice.lapse)
  redis.call('HSET', slices, holder, text)
end

-- More than there are gateways: no script wrote that, and what is out cannot be known.
if redis.call('HLEN', slices) > 1000 then
  bound(slices, term)
  error('too many slices')
end

local held, fields = {}, redis.call('HGETALL', slices)
for i = 1, #fields, 2 do
  local old_session, old_call, settled, out, lapse = string.match(fields[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  held[fields[i]] = {
    session = tonumber(old_session),
    call = tonumber(old_call),
    settled = tonumber(settled),
    out = tonumber(out),
    lapse = tonumber(lapse),
  }
end

-- A call that was overtaken by a later one changes nothing.
local own = held[id]
if own and own.session ~= session then own = nil end
if own and call <= own.call then return { now, -1 } end

-- What others hold, how many they are and the caller, and for how long what stands here matters.
local lent, holders, matters = 0, 1, 0
local function matter(slice)
  matters = math.max(matters, slice.lapse - now)
  -- What is out is charged should it lapse, whenever that is noticed.
  if slice.out > 0 then matters = math.max(matters, algorithm.counts(slice.lapse - 1, now, quota)) end
end

for holder, slice in pairs(held) do
  if slice.lapse > now + term then
    -- The clock stepped back.
    slice.lapse = now + term
    save(holder, slice)
  end
  if slice.lapse <= now or holder == id and not own then
    -- Its gateway is gone, or has forgotten it: nobody knows what was spent, so all of it was, at the last moment.
    local at = math.min(slice.lapse - 1, now)
    if slice.out > 0 and algorithm.counts(at, now, quota) > 0 then charge(slice.out, at) end
    redis.call('HDEL', slices, holder)
    if holder == id then own = nil end
  elseif holder ~= id then
    matter(slice)
    if slice.out > 0 then lent, holders = lent + slice.out, holders + 1 end
  end
end

-- What was spent of the own slice since it was settled last. If nothing is known of that slice it either lapsed, and was
-- charged whole, or was forgotten together with the state, and then its gateway alone knows.
local out, newly = 0, 0
if own then
  newly = math.max(0, spent - own.settled)
  out = math.min(kept, math.max(0, own.out - newly))
elseif known_lapse > now then
  newly = unsettled
end
if newly > 0 then charge(newly, now) end

-- What is lent counts as spent.
local function check(units)
  return algorithm.check(state, now, math.min(units + lent + out, quota[1]), quota)
end

-- A gateway without requests settles and returns its slice within two rounds of half a lapse each. The tenth of a term is for their
-- way.
local lasts = math.min(term, algorithm.counts(now, now, quota))
local settles = lasts + term / 10

-- Returns the time until `units` fit if no other request comes. All slices of others may be spent already.
local function fits_after(units)
  local beyond = units + lent + out - quota[1]
  if beyond <= 0 then return check(units).retry_after end
  -- First the state must be empty, then units of slices must count no longer.
  local empty = check(units).retry_after
  if algorithm.time then return math.max(empty, settles) + algorithm.time(beyond, quota) end
  -- A slice of a window that turns at once lapses with it.
  local last = math.min(settles, algorithm.counts(now, now, quota) - 1)
  return math.max(empty, algorithm.counts(now + last, now, quota))
end

-- A window has turned, or the gateway was silent. Only a request gets a new slice.
if cost == 0 and known_lapse > 0 and known_lapse <= now then wanted = 0 end

local verdict = check(cost)
local left = math.max(0, verdict.remaining - lent - out)
local admitted, retry_after = cost <= left, nil
if admitted then
  if cost > 0 and checks == 0 then
    algorithm.commit(state, now, cost, quota, verdict)
    left = left - cost
  end
  -- A share, so that others find something, but not less than is worth a call.
  local share = math.max(math.ceil(left / (holders + 1)), math.ceil(wanted / 2))
  local more = math.max(0, math.min(wanted - out, share, left))
  out, left, retry_after = out + more, left - more, 0
  local next_cost = math.max(cost, 1)
  if left < next_cost then retry_after = math.max(1, fits_after(next_cost)) end
else
  retry_after = math.max(1, fits_after(cost))
end

local keeps = not admitted and algorithm.keep or bound
keeps(state, verdict.reset)

local lapse = now + lasts
local slice
if out > 0 or wanted > 0 then
  slice = { session = session, call = call, settled = spent, out = out, lapse = lapse }
elseif unsettled > 0 and (own or newly > 0) then
  -- All is returned. Should this answer be lost, the caller tells the same again, and nothing of it is charged again.
  slice = { session = session, call = call, settled = spent, out = 0, lapse = own and own.lapse or known_lapse }
elseif own then
  redis.call('HDEL', slices, id)
end
if slice then
  save(id, slice)
  matter(slice)
end
if matters > 0 then redis.call('PEXPIRE', slices, math.ceil(matters / 1000) + 1) end
return { now, admitted and 1 or 0, left, verdict.reset, retry_after, out, lapse }
