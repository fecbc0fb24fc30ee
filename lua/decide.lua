-- Several limits as one decision: all are checked, then all are charged, or none. The other writing of
-- crates/core/src/decide.rs; README.md beside it has the calling contract. `charging` is false if this is only a check, and
-- `blocking` if it leaves no trace either.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- What is answered, and how many numbers that is.
local reply, said = {}, 0

-- What the words from `word` on say. Decisions that are made together share most of their words, and a word costs
-- more to be read than to be found again.
local terms = {}

local function terms_at(word)
  local found = terms[word]
  if found then return found end
  local algorithm, quota = algorithms[ARGV[word]], {}
  for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[word + 4 + n]) end
  found = {
    algorithm = algorithm,
    cost = tonumber(ARGV[word + 1]),
    observed = ARGV[word + 2] == '1',
    span = tonumber(ARGV[word + 3]),
    lease = tonumber(ARGV[word + 4]),
    quota = quota,
    behind = word + 5 + algorithm.numbers,
  }
  terms[word] = found
  return found
end

local function commit(charge, id)
  local own, verdict = charge.terms, charge.verdict
  if charge.held_key then return holds.commit(charge.held_key, charge.key, now, own, verdict, id) end
  own.algorithm.commit(charge.key, now, own.cost, own.quota, verdict)
end

-- Nothing is charged to it now.
local function keep(charge)
  local own = charge.terms
  local keeps = own.algorithm.keep or bound
  if charge.held_key ~= charge.key then keeps(charge.key, charge.matters) end
  if charge.held_key then holds.bound(charge.held_key, now, own, charge.verdict) end
end

local function refused(charge)
  if charge.block_key and not charge.verdict.settling then
    block.start(charge.block_key, now, charge.terms.span, charge.blocked, charge.verdict)
  end
end

local function too_late()
  reply[said + 1], reply[said + 2] = now, -1
  said = said + 2
end

-- Decides by the keys from `key` to `last_key`, and the words from `word` on, if the deadline has not passed: "deadline", or
-- "deadline ID" of a request that takes holds.
local function decide(key, last_key, told, word)
  local deadline, id = tonumber(told), nil
  if not deadline then
    deadline, id = string.match(told, '^(%d+) (%x+)$')
    deadline = deadline + 0
  end
  -- Whoever asked has given up by then and let something else decide: nothing may be charged any more.
  if now > deadline then return too_late() end

  local charges, count, admitted = {}, 0, true
  while key <= last_key do
    local own, limit_key = terms_at(word), KEYS[key]
    word, key = own.behind, key + 1
    local held_key, verdict
    -- Nobody holds units under this key.
    if own.lease == 0 then
      verdict = own.algorithm.check(limit_key, now, own.cost, own.quota)
    else
      held_key = limit_key
      if not own.algorithm.frees then held_key, key = KEYS[key], key + 1 end
      verdict = holds.check(held_key, limit_key, now, own)
    end
    -- The windows that were sent are over: the time that is told here says which ones to send.
    if not verdict then return too_late() end
    -- `matters` is how long the key itself matters, without holds.
    local matters = verdict.matters or verdict.reset
    local charge = { key = limit_key, held_key = held_key, terms = own, verdict = verdict, matters = matters }
    if own.span ~= 0 then
      charge.block_key = KEYS[key]
      key = key + 1
      charge.blocked = block.check(charge.block_key, now, own.span, verdict)
    end
    admitted = admitted and (verdict.allowed or own.observed)
    count = count + 1
    charges[count] = charge
  end

  reply[said + 1], reply[said + 2] = now, admitted and 1 or 0
  said = said + 2
  for n = 1, count do
    local charge = charges[n]
    local verdict = charge.verdict
    if charging and admitted and verdict.allowed then
      commit(charge, id)
    else
      keep(charge)
      if blocking and not verdict.allowed then refused(charge) end
    end
    reply[said + 1] = verdict.allowed and 1 or verdict.settling and 2 or 0
    reply[said + 2], reply[said + 3] = verdict.remaining, verdict.reset
    reply[said + 4], reply[said + 5] = verdict.retry_after, verdict.delay
    said = said + 5
  end
end
