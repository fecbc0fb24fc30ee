-- Takes back what an earlier call charged, by its receipt: another limit refused the same request after all, or a place is
-- not needed any more. README.md beside it has the calling contract.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local algorithm, cost, quota = algorithms[ARGV[1]], tonumber(ARGV[2]), {}
for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[5 + n]) end
-- The windows that were sent do not contain this time.
if algorithm.covers and not algorithm.covers(now, quota) then return { now, -1 } end
local receipt, hold = unpack(ARGV, 6 + algorithm.numbers)
algorithm.give_back(KEYS[1], now, cost, quota, tonumber(receipt), hold)
return { now, 1 }
