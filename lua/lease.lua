-- Lends a gateway a slice of one limit's budget, settles the units that it has spent, and decides one request in the same call. README.md
-- beside this file describes KEYS, ARGV and the answer. KEYS[2] is a hash with one field per gateway that has a slice: "session call
-- settled out lapse". `settled`: the units of the session that are charged already. `out`: the lent units. `lapse`: the time from which the
-- lent units count as spent.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The caller has timed out and decided by itself: charge no units.
if now > tonumber(ARGV[1]) then return { now, -1 } end

local state, slices = KEYS[1], KEYS[2]
local algorithm, cost, quota = algorithms[ARGV[2]], tonumber(ARGV[3]), {}
-- ARGV[4] to ARGV[6] have the limit's terms for observation, blocks and holds, which slices do not use.
for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[6 + n]) end
local position = 6 + algorithm.numbers
local id, numbers = ARGV[position + 1], {}
for n = 1, 9 do numbers[n] = tonumber(ARGV[position + 1 + n]) end
-- `unsettled`: units that the caller has spent since its last answered call. `kept`: units that the caller does not return.
-- `known_lapse`: the lapse of the slice by the caller's own record.
-- `checks`: 1 if another limit has refused the request, which is then decided and not charged.
local session, call, spent, unsettled, kept, known_lapse, wanted, term, checks = unpack(numbers)

-- Charges units at the time `at`, whether or not they still fit: they fitted when they were lent.
local function charge(units, at)
  algorithm.commit(state, at, units, quota, algorithm.check(state, at, 1, quota))
end

local function save(holder, slice)
  local text = string.format(
    '%d %d %d %d %d', slice.session, slice.call, slice.settled, slice.out, slice.lapse)
  redis.call('HSET', slices, holder, text)
end

-- If the hash has more fields than there are gateways, no script wrote it, and the lent units are unknown.
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

-- A slice of another session no longer belongs to the caller. A call that a later call has overtaken has no effect.
local own = held[id]
if own and own.session ~= session then own = nil end
if own and call <= own.call then return { now, -1 } end

-- `lent`: the units lent to other gateways. `holders`: the number of these gateways, plus 1 for the caller.
-- `matters`: the time until the hash may expire, in us.
local lent, holders, matters = 0, 1, 0
local function matter(slice)
  matters = math.max(matters, slice.lapse - now)
  -- If the slice lapses, a later call charges it. So it matters until a charge at its last moment no longer counts.
  if slice.out > 0 then matters = math.max(matters, algorithm.counts_for(slice.lapse - 1, now, quota)) end
end

for holder, slice in pairs(held) do
  if slice.lapse > now + term then
    -- The clock stepped back.
    slice.lapse = now + term
    save(holder, slice)
  end
  if slice.lapse <= now or holder == id and not own then
    -- Its gateway is gone, or has begun another session. The spent units are unknown: charge all, at the slice's last moment.
    local at = math.min(slice.lapse - 1, now)
    if slice.out > 0 and algorithm.counts_for(at, now, quota) > 0 then charge(slice.out, at) end
    redis.call('HDEL', slices, holder)
    if holder == id then own = nil end
  elseif holder ~= id then
    matter(slice)
    if slice.out > 0 then lent, holders = lent + slice.out, holders + 1 end
  end
end

-- `newly_spent`: units spent of the caller's slice since the last settlement. If Redis has no record of the slice, the slice has lapsed and
-- was charged whole, or Redis has lost its data. If `known_lapse` is still ahead, the data were lost: charge the unsettled units.
local out, newly_spent = 0, 0
if own then
  newly_spent = math.max(0, spent - own.settled)
  out = math.min(kept, math.max(0, own.out - newly_spent))
elseif known_lapse > now then
  newly_spent = unsettled
end
if newly_spent > 0 then charge(newly_spent, now) end

-- Checks whether `units` fit. All lent units count as used.
local function check(units)
  return algorithm.check(state, now, math.min(units + lent + out, quota[1]), quota)
end

-- A gateway without requests returns its slice within one lease: its call after half a lease settles the last spent units, and its call
-- after the other half returns the slice. These calls may take a tenth of a term.
local slice_lease = math.min(term, algorithm.counts_for(now, now, quota))
local returned_after = slice_lease + term / 10

-- Returns the us until `units` fit if no other request comes. All slices of others count as spent.
local function fits_after(units)
  local beyond = units + lent + out - quota[1]
  if beyond <= 0 then return check(units).retry_after end
  -- First the state must be empty, then lent units must no longer count.
  local empty = check(units).retry_after
  if algorithm.time then return math.max(empty, returned_after) + algorithm.time(beyond, quota) end
  -- All units of a window leave at its end, and slices lapse before the end. So slices are charged in the last microsecond of the window at
  -- the latest.
  local last = math.min(returned_after, algorithm.counts_for(now, now, quota) - 1)
  return math.max(empty, algorithm.counts_for(now + last, now, quota))
end

-- The caller's slice has lapsed: its window has ended, or the gateway made no call in time. Only a call with a request gets a new slice.
if cost == 0 and known_lapse > 0 and known_lapse <= now then wanted = 0 end

local verdict = check(cost)
local left = math.max(0, verdict.remaining - lent - out)
local admitted, retry_after = cost <= left, nil
local charges = admitted and cost > 0 and checks == 0
if admitted then
  if charges then
    algorithm.commit(state, now, cost, quota, verdict)
    left = left - cost
  end
  -- Lends a share of the units left, so that other gateways get units, too. A slice below half of `wanted` is not worth a call.
  local share = math.max(math.ceil(left / (holders + 1)), math.ceil(wanted / 2))
  local more = math.max(0, math.min(wanted - out, share, left))
  out, left, retry_after = out + more, left - more, 0
  -- The wait of the next request of this cost.
  local next_cost = math.max(cost, 1)
  if left < next_cost then retry_after = math.max(1, fits_after(next_cost)) end
else
  retry_after = math.max(1, fits_after(cost))
end

local keeps = not charges and algorithm.keep or bound
keeps(state, verdict.reset)

local lapse = now + slice_lease
local slice
if out > 0 or wanted > 0 then
  slice = { session = session, call = call, settled = spent, out = out, lapse = lapse }
elseif unsettled > 0 and (own or newly_spent > 0) then
  -- The caller has returned all units. If this answer is lost, the next call sends the unsettled units again. This record prevents their
  -- second charge.
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
