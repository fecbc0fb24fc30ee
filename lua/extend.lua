-- Holds a reservation for longer; answers when it lapses now, or 0 if it is settled or forgotten. README.md beside it has the
-- calling contract.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local algorithm, cost, lease, quota = algorithms[ARGV[1]], tonumber(ARGV[2]), tonumber(ARGV[5]), {}
for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[5 + n]) end
local extended = reservations.extend(KEYS[2], ARGV[6 + algorithm.numbers], cost, algorithm, quota, now, lease)
return { now, extended and now + lease or 0 }
