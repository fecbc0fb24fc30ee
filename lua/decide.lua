-- Several limits as one decision: all are checked, then all are charged, or none. The other writing of
-- crates/core/src/decide.rs; README.md beside it has the calling contract. `charging` is false if this is only a check.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whoever asked has given up by then and let something else decide: nothing may be charged any more.
if now > tonumber(ARGV[1]) then return { now, -1 } end

local charges, admitted, position, next_key = {}, true, 2, 1
while KEYS[next_key] do
  local algorithm, cost, quota = algorithms[ARGV[position]], tonumber(ARGV[position + 1]), {}
  local observed, span = ARGV[position + 2] == '1', tonumber(ARGV[position + 3])
  for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[position + 3 + n]) end
  position = position + 4 + algorithm.numbers
  local key, block_key, blocked = KEYS[next_key], nil, 0
  next_key = next_key + 1
  local verdict = algorithm.check(key, now, cost, quota)
  -- The windows that were sent are over: the time that is told here says which ones to send.
  if not verdict then return { now, -1 } end
  if span ~= 0 then
    block_key = KEYS[next_key]
    next_key = next_key + 1
    blocked = block.check(block_key, now, span, verdict)
  end
  admitted = admitted and (verdict.allowed or observed)
  charges[#charges + 1] = {
    key = key, algorithm = algorithm, cost = cost, quota = quota, verdict = verdict,
    block_key = block_key, span = span, blocked = blocked,
  }
end

local reply = { now, admitted and 1 or 0 }
for _, charge in ipairs(charges) do
  local verdict = charge.verdict
  if charging and not verdict.allowed then
    if charge.block_key then block.start(charge.block_key, now, charge.span, charge.blocked, verdict) end
  elseif charging and admitted then
    charge.algorithm.commit(charge.key, now, charge.cost, charge.quota, verdict)
  end
  reply[#reply + 1] = verdict.allowed and 1 or 0
  reply[#reply + 1] = verdict.remaining
  reply[#reply + 1] = verdict.reset
  reply[#reply + 1] = verdict.retry_after
  reply[#reply + 1] = verdict.delay
end
return reply
