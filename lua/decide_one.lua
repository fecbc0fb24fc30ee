-- One decision, by decide.lua, which stands in front of this.

decide(1, #KEYS, tonumber(ARGV[1]), 2)
return reply
