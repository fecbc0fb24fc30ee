-- Decides one request. The script has decide.lua in front of this file.

decide(1, #KEYS, ARGV[1], 2)
return reply
