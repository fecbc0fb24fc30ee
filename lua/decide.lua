-- Several limits as one decision: all are checked, then all are charged, or none. The other writing of
-- crates/core/src/decide.rs; README.md beside it has the calling contract. `charging` is false if this is only a check.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- What is answered, and how many numbers that is.
local reply, said = {}, 0

local function commit(charge)
  charge.algorithm.commit(charge.key, now, charge.cost, charge.quota, charge.verdict)
  if charge.unsettled_key then places.take(charge.unsettled_key, now, charge.cost, now + charge.lease) end
end

local function refused(charge)
  if charge.block_key and not charge.verdict.settling then
    block.start(charge.block_key, now, charge.span, charge.blocked, charge.verdict)
  end
end

local function too_late()
  reply[said + 1], reply[said + 2] = now, -1
  said = said + 2
end

-- Decides by the keys from `key` to `last_key`, and the words from `word` on.
local function decide(key, last_key, deadline, word)
  -- Whoever asked has given up by then and let something else decide: nothing may be charged any more.
  if now > deadline then return too_late() end

  local charges, count, admitted = {}, 0, true
  while key <= last_key do
    local algorithm, cost, quota = algorithms[ARGV[word]], tonumber(ARGV[word + 1]), {}
    local observed, span, lease = ARGV[word + 2] == '1', tonumber(ARGV[word + 3]), tonumber(ARGV[word + 4])
    for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[word + 4 + n]) end
    word = word + 5 + algorithm.numbers
    local charge = { key = KEYS[key], algorithm = algorithm, cost = cost, quota = quota, span = span, lease = lease }
    key = key + 1
    local verdict = algorithm.check(charge.key, now, cost, quota)
    -- The windows that were sent are over: the time that is told here says which ones to send.
    if not verdict then return too_late() end
    charge.verdict = verdict
    if lease > 0 then
      charge.unsettled_key = KEYS[key]
      key = key + 1
      local unsettled = places.taken(charge.unsettled_key, now, lease)
      verdict.settling = not verdict.allowed and unsettled > 0 and verdict.remaining + unsettled >= cost
    end
    if span ~= 0 then
      charge.block_key = KEYS[key]
      key = key + 1
      charge.blocked = block.check(charge.block_key, now, span, verdict)
    end
    admitted = admitted and (verdict.allowed or observed)
    count = count + 1
    charges[count] = charge
  end

  reply[said + 1], reply[said + 2] = now, admitted and 1 or 0
  said = said + 2
  for n = 1, count do
    local charge = charges[n]
    local verdict = charge.verdict
    if charging and not verdict.allowed then
      refused(charge)
    elseif charging and admitted then
      commit(charge)
    end
    reply[said + 1] = verdict.allowed and 1 or verdict.settling and 2 or 0
    reply[said + 2], reply[said + 3] = verdict.remaining, verdict.reset
    reply[said + 4], reply[said + 5] = verdict.retry_after, verdict.delay
    said = said + 5
  end
end
