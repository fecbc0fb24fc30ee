-- Takes back what an earlier call charged, by its receipt: another limit refused the same request after all. README.md beside it has the calling contract.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local algorithm, cost, quota = algorithms[ARGV[1]], tonumber(ARGV[2]), {}
for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[5 + n]) end
-- The windows that were sent do not contain this time.
if algorithm.covers and not algorithm.covers(now, quota) then return { now, -1 } end
algorithm.give_back(KEYS[1], now, cost, quota, tonumber(ARGV[6 + algorithm.numbers]))
return { now, 1 }
