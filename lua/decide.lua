-- Several limits as one decision: all are checked, then all are charged, or none. The other writing of
-- crates/core/src/decide.rs; README.md beside it has the calling contract. `charging` is false if this is only a check.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whoever asked has given up by then and let something else decide: nothing may be charged any more.
if now > tonumber(ARGV[1]) then return { now, -1 } end

local charges, admitted, position, used_keys = {}, true, 2, 0
local function next_key()
  used_keys = used_keys + 1
  return KEYS[used_keys]
end

while used_keys < #KEYS do
  local algorithm, cost, quota = algorithms[ARGV[position]], tonumber(ARGV[position + 1]), {}
  local observed, span, lease = ARGV[position + 2] == '1', tonumber(ARGV[position + 3]), tonumber(ARGV[position + 4])
  for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[position + 4 + n]) end
  position = position + 5 + algorithm.numbers
  local key = next_key()
  local verdict = algorithm.check(key, now, cost, quota)
  -- The windows that were sent are over: the time that is told here says which ones to send.
  if not verdict then return { now, -1 } end
  local unsettled_key, block_key, blocked
  if lease > 0 then
    unsettled_key = next_key()
    local unsettled = places.taken(unsettled_key, now, lease)
    verdict.settling = not verdict.allowed and unsettled > 0 and verdict.remaining + unsettled >= cost
  end
  if span ~= 0 then
    block_key = next_key()
    blocked = block.check(block_key, now, span, verdict)
  end
  admitted = admitted and (verdict.allowed or observed)
  charges[#charges + 1] = {
    key = key, algorithm = algorithm, cost = cost, quota = quota, verdict = verdict,
    unsettled_key = unsettled_key, lease = lease, block_key = block_key, span = span, blocked = blocked,
  }
end

local function commit(charge)
  charge.algorithm.commit(charge.key, now, charge.cost, charge.quota, charge.verdict)
  if charge.unsettled_key then places.take(charge.unsettled_key, now, charge.cost, now + charge.lease) end
end

local function refused(charge)
  if charge.block_key and not charge.verdict.settling then
    block.start(charge.block_key, now, charge.span, charge.blocked, charge.verdict)
  end
end

local reply = { now, admitted and 1 or 0 }
for _, charge in ipairs(charges) do
  local verdict = charge.verdict
  if charging and not verdict.allowed then
    refused(charge)
  elseif charging and admitted then
    commit(charge)
  end
  reply[#reply + 1] = verdict.allowed and 1 or verdict.settling and 2 or 0
  reply[#reply + 1] = verdict.remaining
  reply[#reply + 1] = verdict.reset
  reply[#reply + 1] = verdict.retry_after
  reply[#reply + 1] = verdict.delay
end
return reply
