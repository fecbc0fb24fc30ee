-- Renews what a running request holds, or ends it, for limits whose keys share a slot. An end has an empty deadline, and one real cost
-- for each limit. README.md beside it has the calling contract.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local limits, word, key = {}, 1, 1
while key <= #KEYS do
  local algorithm, quota = algorithms[ARGV[word]], {}
  for i = 1, algorithm.numbers do quota[i] = tonumber(ARGV[word + 4 + i]) end
  -- The windows that were sent do not contain this time.
  if algorithm.covers and not algorithm.covers(now, quota) then return { now, -1 } end
  -- What has no charges has holds alone, under its own key.
  local held_key = algorithm.frees and key or key + 1
  limits[#limits + 1] = {
    key = KEYS[key],
    held_key = KEYS[held_key],
    algorithm = algorithm,
    cost = tonumber(ARGV[word + 1]),
    lease = tonumber(ARGV[word + 4]),
    quota = quota,
  }
  word, key = word + 5 + algorithm.numbers, held_key + 1
end
local id, deadline = ARGV[word], tonumber(ARGV[word + 1])
-- The gateway does not wait for it any more, and the hold may have ended since.
if deadline and now > deadline then return { now, -1 } end

local done = 1
for n, own in ipairs(limits) do
  if deadline then
    holds.renew(own.held_key, id, now, own)
  elseif not holds.finish(own.held_key, own.key, id, tonumber(ARGV[word + 1 + n]), now, own) then
    done = 0
  end
end
return { now, done }
