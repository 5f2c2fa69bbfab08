-- What every script begins with: what it was given, and the server's clock.
--
-- KEYS: some keys for each item, all of its job; then the index of jobs, where all keys may lie on one node.
-- ARGV: the settings as a JSON object, then the fields of each item as a JSON array of strings; '' stands for "none".
--
-- Numbers are kept and answered as decimal strings: Lua would print a great one rounded.

local COUNT = #ARGV - 1

-- By how many milliseconds a claim may come before its slot.
local EARLY_TOLERANCE = 500

local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local NOW_TEXT = TIME[1] .. string.format('%03d', NOW % 1000)
