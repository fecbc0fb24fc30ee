-- Takes back what an earlier call charged, by its receipts: another slot of a Redis Cluster refused the same request.
-- README.md beside it has the calling contract.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local position = 1
for _, key in ipairs(KEYS) do
  local algorithm, cost, quota = algorithms[ARGV[position]], tonumber(ARGV[position + 1]), {}
  for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[position + 3 + n]) end
  position = position + 4 + algorithm.numbers
  algorithm.give_back(key, now, cost, quota, tonumber(ARGV[position]))
  position = position + 1
end
return { now }
