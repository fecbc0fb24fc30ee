-- State that is a string of up to three whole numbers. A call reads the string of a key once.

-- So long is any such text at most. What is longer is none, and is not read whole. The end is text: Redis writes numbers slowly.
local LONGEST, END = 140, '140'

-- What is known of each key; false if there is nothing under it.
local known = {}
-- For how long the keys are to be kept that are written at the end of the call; nil if each is written at once.
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
  -- Redis counts from the start of its own millisecond, and drops at once what would end before its clock ticks again.
  redis.call('SET', key, text, 'PX', string.format('%d', math.ceil(period / 1000) + 1))
end

-- Returns the numbers that the pattern captures under a key, or none if the key is missing.
local function recall(key, pattern)
  local numbers = known[key]
  if numbers == nil then
    local value = redis.call('GETRANGE', key, '0', END)
    numbers = false
    if value ~= '' then
      if #value > LONGEST then error('too long') end
      local first, second, third = string.match(value, pattern)
      -- Other content is an error here.
      numbers = { first + 0, second and second + 0, third and third + 0 }
    end
    known[key] = numbers
  end
  if numbers then return numbers[1], numbers[2], numbers[3] end
end

-- `period` is how long it matters, in us.
local function record(key, period, first, second, third)
  local numbers = { first, second, third }
  known[key] = numbers
  if unwritten then
    unwritten[key] = period
  else
    write(key, numbers, period)
  end
end

-- The keys that were bounded in this call.
local bounded = {}

-- Sees to it that a key which is not written has a time to live, since that may have been taken away or be that of another
-- clock: twice the period for which it matters, in us, or a minute.
local function bound(key, period)
  if bounded[key] or unwritten and unwritten[key] then return end
  bounded[key] = true
  redis.call('PEXPIRE', key, math.max(60000, math.ceil(2 * period / 1000) + 2), 'LT')
end

-- Returns a number for a key whose value no script wrote: -1 for another type, -2 for other content. An error of the server, such as
-- a command that the user may not run, ends the whole call with Redis's own text. crates/redis/src/error_reply.rs has the same words.
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
