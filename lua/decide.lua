-- Decides a request over all its limits: checks every limit, then charges all of them or none. Computes the same as
-- crates/core/src/decide.rs. README.md beside this file describes KEYS, ARGV and the answer. The parts of the script in front of this file
-- define `algorithms`, `holds`, `block` and `bound`. They also define `charging`, whether an admitted request is charged, and `blocking`,
-- whether a refusal starts the block of its limit. decide_one.lua or decide_many.lua follows, and calls `decide`.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The answer, a flat row of integers, and its length so far.
local reply, length = {}, 0

-- The parsed arguments of limits, by the index in ARGV at which they begin: decisions of one call share most of them, and a lookup is
-- cheaper than parsing. `observed`: the limit never refuses. `span`: the time of a block in us, 0 without a block, below 0 if refused
-- requests prolong it. `lease`: the time of a hold in us, 0 without holds. `behind`: the index in ARGV behind these arguments.
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

-- Sets the expiry of a limit's state, which this decision does not write.
local function keep_state(budget)
  if budget.held_key == budget.key or budget.verdict.free then return end
  local keeps = budget.terms.algorithm.keep or bound
  keeps(budget.key, budget.matters)
end

-- Charges a limit, or takes a hold in place of the charge.
local function commit(budget, id)
  local own, verdict = budget.terms, budget.verdict
  if not budget.held_key then return own.algorithm.commit(budget.key, now, own.cost, own.quota, verdict) end
  -- A hold does not write the state, and a charge does not write the holds.
  if own.lease > 0 then keep_state(budget) else holds.keep(budget.held_key, now, own, verdict) end
  holds.commit(budget.held_key, budget.key, now, own, verdict, id)
end

-- Sets the expiry of the keys of a limit that this decision does not charge.
local function keep(budget)
  keep_state(budget)
  if budget.held_key then holds.keep(budget.held_key, now, budget.terms, budget.verdict) end
end

local function refused(budget)
  if budget.block_key and not budget.verdict.settling then
    block.start(budget.block_key, now, budget.terms.span, budget.blocked_until, budget.verdict)
  end
end

-- Adds the answer to a request that this call does not decide.
local function undecided()
  reply[length + 1], reply[length + 2] = now, -1
  length = length + 2
end

-- Decides one request. KEYS[key] to KEYS[last_key] are its keys, and its limits' arguments begin at ARGV[word]. `deadline_and_id`
-- is its deadline; if the request takes holds, a space and the ID of its holds follow.
local function decide(key, last_key, deadline_and_id, word)
  local deadline, id = tonumber(deadline_and_id), nil
  if not deadline then
    deadline, id = string.match(deadline_and_id, '^(%d+) (%x+)$')
    deadline = deadline + 0
  end
  -- The caller has timed out and decided by itself: charge no units.
  if now > deadline then return undecided() end

  local budgets, count, admitted = {}, 0, true
  -- The units that are left of the limit in front, of which the next limit may be a share.
  local left
  while key <= last_key do
    local own, limit_key = terms_at(word), KEYS[key]
    word, key = own.behind, key + 1
    local held_key, verdict
    if own.lease == 0 then
      verdict = own.algorithm.check(limit_key, now, own.cost, own.quota, left)
    else
      held_key = limit_key
      if not own.algorithm.frees then held_key, key = KEYS[key], key + 1 end
      verdict = holds.check(held_key, limit_key, now, own, left)
    end
    -- The calendar windows in the call do not contain `now`. The answer has `now`, so that the caller can send the windows around it.
    if not verdict then return undecided() end
    if own.algorithm.is_share and left then verdict.remaining = math.min(verdict.remaining, left) end
    -- `matters`: us until the limit's own key may expire, without regard to holds.
    local matters = verdict.matters or verdict.reset
    local budget = { key = limit_key, held_key = held_key, terms = own, verdict = verdict, matters = matters }
    if own.span ~= 0 then
      budget.block_key = KEYS[key]
      key = key + 1
      budget.blocked_until = block.check(budget.block_key, now, own.span, verdict)
    end
    left = verdict.remaining
    admitted = admitted and (verdict.allowed or own.observed)
    count = count + 1
    budgets[count] = budget
  end

  reply[length + 1], reply[length + 2] = now, admitted and 1 or 0
  length = length + 2
  for n = 1, count do
    local budget = budgets[n]
    local verdict = budget.verdict
    if charging and admitted and verdict.allowed then
      commit(budget, id)
    else
      keep(budget)
      if blocking and not verdict.allowed then refused(budget) end
    end
    reply[length + 1] = verdict.allowed and 1 or verdict.settling and 2 or 0
    reply[length + 2], reply[length + 3] = verdict.remaining, verdict.reset
    reply[length + 4], reply[length + 5] = verdict.retry_after, verdict.delay
    length = length + 5
  end
end
