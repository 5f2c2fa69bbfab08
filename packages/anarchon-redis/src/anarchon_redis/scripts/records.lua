-- What every script shares: the server's clock, the records of ended attempts, one batch.
--
-- KEYS: some keys for each item, all of its job; then the index of jobs, where all keys may lie on one node.
-- ARGV: the settings as a JSON object, then the fields of each item as a JSON array of strings; '' stands for "none".
--
-- Numbers are kept and answered as decimal strings: Lua would print a great one rounded.

local COUNT = #ARGV - 1

-- By how many milliseconds a claim may come before its slot.
local EARLY_TOLERANCE = 500

-- Most calls never look at them.
local read_settings
local function settings()
  read_settings = read_settings or cjson.decode(ARGV[1])
  return read_settings
end

local function text(number)
  return string.format('%.0f', number)
end

local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local NOW_TEXT = TIME[1] .. string.format('%03d', NOW % 1000)

local function member_of(slot, attempt)
  return slot .. ':' .. string.format('%010d', attempt)
end

-- A thirty-second more than the retention allows may gather, so that records go in strokes; never more than
-- a few hundred at once, so that nobody waits. By age the oldest slots are looked at, three for each new one.
local function prune(item, count)
  local function drop(members)
    if #members > 0 then
      redis.call('ZREM', item.runs, unpack(members))
      redis.call('HDEL', item.records, unpack(members))
    end
  end
  local kept = settings()
  local surplus = count - kept.keep
  if surplus > math.floor(kept.keep / 32) then
    drop(redis.call('ZRANGE', item.runs, 0, math.min(surplus, 256) - 1))
  end
  if kept.age then
    local before = NOW - kept.age
    local old = {}
    for _, member in ipairs(redis.call('ZRANGE', item.runs, 0, 2)) do
      -- A run ends no earlier than its slot, but for the tolerance of clocks; most slots are too young to look.
      if tonumber(string.match(member, '^[^:]+')) > before + EARLY_TOLERANCE then
        break
      end
      local record = redis.call('HGET', item.records, member)
      if not record or tonumber(cjson.decode(record)[7]) < before then
        old[#old + 1] = member
      end
    end
    drop(old)
    -- A job that nobody runs any more leaves no records for ever: all of them have ended by now.
    local age = text(kept.age)
    redis.call('PEXPIRE', item.runs, age)
    redis.call('PEXPIRE', item.records, age)
  end
end

-- A record is {token, status, reason, instance, claimed, started, finished, error}. The reads come first: a key of
-- the wrong type is an error before anything was written.
local function keep_record(item, slot, attempt, record)
  local member = member_of(slot, attempt)
  local count = redis.call('ZCARD', item.runs)
  redis.call('HLEN', item.records)
  count = count + redis.call('ZADD', item.runs, slot, member)
  redis.call('HSET', item.records, member, cjson.encode(record))
  prune(item, count)
end

local function record_of(item, slot, attempt)
  local record = redis.call('HGET', item.records, member_of(slot, attempt))
  return record and cjson.decode(record)
end

local function started_of(ago)
  return ago == '' and '' or text(NOW - ago)
end

-- The name of a job stands in its keys, between the braces.
local function name_in_index(item)
  if item.index then
    redis.call('SADD', item.index, string.match(item.key, '{(.*)}'))
  end
end

-- One item's error is answered in its place, and its neighbours are served.
local function serve(names, decide)
  local answers = {NOW_TEXT}
  local stride = #names
  local index = KEYS[COUNT * stride + 1]
  for number = 1, COUNT do
    local before = (number - 1) * stride
    -- The empty fields make room: a table that grows field by field is copied again and again.
    local item = {index = index, key = KEYS[before + 1], runs = nil, records = nil, state = nil, open = nil, claims = nil}
    for place = 1, stride do
      item[names[place]] = KEYS[before + place]
    end
    local served, answer = pcall(decide, item, cjson.decode(ARGV[number + 1]))
    if not served then
      answer = {'error', type(answer) == 'table' and answer.err or tostring(answer)}
    end
    answers[number + 1] = answer
  end
  return cjson.encode(answers)
end
