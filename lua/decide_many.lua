-- Decisions that were asked for at the same moment, each by decide.lua, which stands in front of this, as if it had come
-- alone. Together they cost Redis one command. README.md beside it has the calling contract.

local key, word = 1, 2
for _ = 1, tonumber(ARGV[1]) do
  local keys, deadline, own = tonumber(ARGV[word]), tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  local length = said + 1
  said = length
  -- One that fails concerns no other: it says nothing, and is asked again alone, to say why.
  if not pcall(decide, key, key + keys - 1, deadline, own) then said = length end
  reply[length] = said - length
  key, word = key + keys, word + 3
end
return reply
