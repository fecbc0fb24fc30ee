-- Decides a request over all its limits: checks every limit, then charges all of them or none. Computes the same as
-- crates/core/src/decide.rs. README.md beside this file describes KEYS, ARGV and the answer. The text before this defines `charging` and
-- `blocking`: whether an admitted request is charged, and whether a refusal starts its limit's block.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The answer, a flat row of integers, and its length so far.
local reply, said = {}, 0

-- A limit's parsed arguments, by their index in ARGV: decisions of one call share most of them, and a lookup is cheaper than parsing.
-- `observed`: the limit never refuses. `span`: us of a block, 0 without. `lease`: us of a hold, 0 without. `behind`: the index after them.
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

-- Charges a limit, or takes a hold in place of the charge.
local function commit(charge, id)
  local own, verdict = charge.terms, charge.verdict
  if charge.held_key then return holds.commit(charge.held_key, charge.key, now, own, verdict, id) end
  own.algorithm.commit(charge.key, now, own.cost, own.quota, verdict)
end

-- Sets the expiry of the keys of a limit that this decision does not charge.
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

-- Decides one request. KEYS[key] to KEYS[last_key] are its keys, and its limits' arguments begin at ARGV[word]. `told` is its deadline, and
-- behind a space the ID of its holds, if it takes holds.
local function decide(key, last_key, told, word)
  local deadline, id = tonumber(told), nil
  if not deadline then
    deadline, id = string.match(told, '^(%d+) (%x+)$')
    deadline = deadline + 0
  end
  -- The caller has timed out and decided by itself: charge no units.
  if now > deadline then return too_late() end

  local charges, count, admitted = {}, 0, true
  while key <= last_key do
    local own, limit_key = terms_at(word), KEYS[key]
    word, key = own.behind, key + 1
    local held_key, verdict
    if own.lease == 0 then
      verdict = own.algorithm.check(limit_key, now, own.cost, own.quota)
    else
      held_key = limit_key
      if not own.algorithm.frees then held_key, key = KEYS[key], key + 1 end
      verdict = holds.check(held_key, limit_key, now, own)
    end
    -- The calendar windows in the call do not contain `now`. The answer has `now`, so that the caller can send the right ones.
    if not verdict then return too_late() end
    -- `matters`: us until the limit's own key may expire, without regard to holds.
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
