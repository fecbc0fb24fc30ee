-- State in a string of up to three integers. A call reads the string of a key once.

-- LONGEST: the most bytes of such a string. A longer string is an error, and is not read whole. END: the same number as text, because Redis
-- formats numbers slowly.
local LONGEST, END = 140, '140'

-- The numbers of each key that this call has read or written; false if the key is missing.
local known = {}
-- The us until expiry of each key to write at the end of the call (decide_many.lua); nil if each key is written at once.
local unwritten

local function write(key, numbers, period)
  local first, second, third = numbers[1], numbers[2], numbers[3]
  local text
  if third then
    text = string.format('%d %d %d', first, second, third)
  elseif second then
    text = string.format('%d %d', first, second)
  else
    text = string.format('%d', first)
  end
  -- A millisecond more: Redis counts from the start of its own millisecond, and drops at once a key that would end before its clock ticks
  -- again.
  redis.call('SET', key, text, 'PX', string.format('%d', math.ceil(period / 1000) + 1))
end

-- Returns the numbers that the pattern captures in the value of a key, or no value if the key is missing.
local function recall(key, pattern)
  local numbers = known[key]
  if numbers == nil then
    local value = redis.call('GETRANGE', key, '0', END)
    numbers = false
    if value ~= '' then
      if #value > LONGEST then error('too long') end
      local first, second, third = string.match(value, pattern)
      -- If the value does not match the pattern, this line fails.
      numbers = { first + 0, second and second + 0, third and third + 0 }
    end
    known[key] = numbers
  end
  if numbers then return numbers[1], numbers[2], numbers[3] end
end

-- Stores numbers under a key. `period`: us until the key may expire.
local function record(key, period, first, second, third)
  local numbers = { first, second, third }
  known[key] = numbers
  if unwritten then
    unwritten[key] = period
  else
    write(key, numbers, period)
  end
end

-- The keys that this call has bounded.
local bounded = {}

-- Bounds the time to live of a key that is not written. The bound is twice its `period`, in us, and a minute at least. A user may have
-- removed the time to live, or another clock may have set it.
local function bound(key, period)
  if bounded[key] or unwritten and unwritten[key] then return end
  bounded[key] = true
  redis.call('PEXPIRE', key, math.max(60000, math.ceil(2 * period / 1000) + 2), 'LT')
end

-- Returns a number for a key whose value no script wrote: -1 for another type, -2 for other content. An error of the server, such as a
-- command that the user may not run, ends the call with Redis's own text. The same texts are in crates/redis/src/error_reply.rs.
local function failure(why)
  local text = tostring(type(why) == 'table' and why.err or why)
  local of_server = {
    "The user executing the script can't",
    'ACL failure in script',
    'Unknown Redis command',
    'Unknown command called from script',
    'not allowed from script',
  }
  for _, words in ipairs(of_server) do
    if string.find(text, words, 1, true) then error(why, 0) end
  end
  if string.find(text, '^NOPERM') then error(why, 0) end
  return string.find(text, '^WRONGTYPE') and -1 or -2
end
