-- One decision, by decide.lua, which stands in front of this.

decide(1, #KEYS, 1)
return reply
