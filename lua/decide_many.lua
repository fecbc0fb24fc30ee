-- Decisions that were asked for at the same moment, each by decide.lua, which stands in front of this, as if it had come
-- alone. Together they cost Redis one command. README.md beside it has the calling contract.

-- What many charge is written once.
unwritten = {}

local key, word = 1, 2
for _ = 1, tonumber(ARGV[1]) do
  local times, keys, own = tonumber(ARGV[word]), tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  for n = 1, times do
    local length = said + 1
    said = length
    -- One that fails concerns no other: it says nothing, and is asked again alone, to say why.
    if not pcall(decide, key, key + keys - 1, tonumber(ARGV[word + 2 + n]), own) then said = length end
    reply[length] = said - length
  end
  key, word = key + keys, word + 3 + times
end
for written, period in pairs(unwritten) do write(written, known[written], period) end
return reply
