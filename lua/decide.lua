-- Several limits as one decision: all are checked, then all are charged, or none. The other writing of
-- crates/core/src/decide.rs; README.md beside it has the calling contract. `charging` is false if this is only a check.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whoever asked has given up by then and let something else decide: nothing may be charged any more.
if now > tonumber(ARGV[1]) then return { now, -1 } end

local charges, admitted, position = {}, true, 2
for i, key in ipairs(KEYS) do
  local algorithm, cost, quota = algorithms[ARGV[position]], tonumber(ARGV[position + 1]), {}
  for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[position + 1 + n]) end
  position = position + 2 + algorithm.numbers
  local verdict = algorithm.check(key, now, cost, quota)
  admitted = admitted and verdict.allowed
  charges[i] = { algorithm = algorithm, cost = cost, quota = quota, verdict = verdict }
end

local reply = { now, admitted and 1 or 0 }
for i, charge in ipairs(charges) do
  local verdict = charge.verdict
  if admitted and charging then charge.algorithm.commit(KEYS[i], now, charge.cost, charge.quota, verdict) end
  reply[#reply + 1] = verdict.allowed and 1 or 0
  reply[#reply + 1] = verdict.remaining
  reply[#reply + 1] = verdict.reset
  reply[#reply + 1] = verdict.retry_after
  reply[#reply + 1] = verdict.delay
end
return reply
