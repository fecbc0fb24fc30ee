-- Renews the holds of a running request, or ends them, for limits whose keys share a slot. For an end the deadline is empty, and the used
-- units of each limit follow. README.md beside this file describes KEYS, ARGV and the answer.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local limits, word, key = {}, 1, 1
while key <= #KEYS do
  local algorithm, quota = algorithms[ARGV[word]], {}
  for i = 1, algorithm.numbers do quota[i] = tonumber(ARGV[word + 4 + i]) end
  -- The calendar windows in the call do not contain `now`.
  if algorithm.covers and not algorithm.covers(now, quota) then return { now, -1 } end
  -- A limit whose holds are freed, not charged (`concurrency`), has only the key of its holds.
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
-- The gateway has timed out, and may have ended the hold already.
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
