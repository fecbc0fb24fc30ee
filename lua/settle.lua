-- Settles a reservation: what a request has come to is known. The other writing of Slot::settle in crates/core/src/decide.rs;
-- README.md beside it has the calling contract.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local key, unsettled_key = KEYS[1], KEYS[2]
local algorithm, cost, quota = algorithms[ARGV[1]], tonumber(ARGV[2]), {}
for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[5 + n]) end
local receipt, id, used, charged = unpack(ARGV, 6 + algorithm.numbers)
receipt, used, charged = tonumber(receipt), tonumber(used), tonumber(charged)

-- The windows that were sent do not contain this time.
if algorithm.covers and not algorithm.covers(now, quota) then return { now, -1 } end
local bounded = receipt
if used < cost then
  bounded = reservations.bounded(unsettled_key, receipt, cost - used, algorithm, quota, charged, now)
end
local function charge()
  if used < cost then
    reservations.refunded(unsettled_key, id, cost - used, receipt, bounded, algorithm, quota, charged, now)
    algorithm.give_back(key, now, cost - used, quota, bounded)
  elseif used > cost then
    -- All of it, whether or not it fits.
    algorithm.commit(key, now, used - cost, quota, algorithm.check(key, now, 1, quota))
  end
end
-- Without a record it was settled before, or is forgotten.
return { now, reservations.settle(unsettled_key, id, cost, algorithm, quota, now, ARGV[5], charge) and 1 or 0 }
