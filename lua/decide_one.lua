-- One decision, by decide.lua, which stands in front of this.

decide(1, #KEYS, ARGV[1], 2)
return reply
