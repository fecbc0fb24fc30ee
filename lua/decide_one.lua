-- Decides one request by decide.lua, which is in front of this.

decide(1, #KEYS, ARGV[1], 2)
return reply
