-- The records of ended attempts, for the scripts that read or write them.

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
