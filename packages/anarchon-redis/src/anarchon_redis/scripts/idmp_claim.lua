-- The strategy "idmp": the slot is an idempotency id of a stream. The first XADD with it adds an entry, every later
-- one is answered with that entry's id; whose token stands there has won.
--
-- The server forgets ids by age and by number, and all of them when the settings change. So the settings are compared
-- at each claim, and a slot that may have been forgotten is refused.

local IDS_MAX = 10000
local ENTRIES_MAX = 9900
local PRODUCER = 'anarchon'

local function fact(facts, name)
  for place = 1, #facts, 2 do
    if facts[place] == name then
      return tonumber(facts[place + 1])
    end
  end
end

-- Whose token the records name for a slot; nil where there is no record.
local function holder_in_records(item, slot)
  local running = redis.call('HGET', item.open, slot)
  local record = running and cjson.decode(running) or record_of(item, slot, 1)
  return record and record[1] or nil
end

-- See that the stream is there and remembers ids as we want it, and say how many entries it has.
local function prepare(item)
  local facts = redis.pcall('XINFO', 'STREAM', item.claims)
  if facts.err and redis.call('EXISTS', item.claims) == 0 then
    -- Settings need a stream, and a stream needs an entry or a group.
    redis.call('XGROUP', 'CREATE', item.claims, PRODUCER, '$', 'MKSTREAM')
    redis.call('XGROUP', 'DESTROY', item.claims, PRODUCER)
    redis.call('XCFGSET', item.claims, 'IDMP-DURATION', text(settings().duration), 'IDMP-MAXSIZE', text(IDS_MAX))
    return 0
  elseif facts.err then
    error(facts)
  end
  local duration, size = fact(facts, 'idmp-duration'), fact(facts, 'idmp-maxsize')
  if duration ~= settings().duration or size ~= IDS_MAX then
    error({err = string.format(
      'IDMPSETTINGS stream %s remembers ids for %s s, at most %s; this instance wants %.0f s, at most %.0f',
      item.claims, tostring(duration), tostring(size), settings().duration, IDS_MAX)})
  end
  return fact(facts, 'length')
end

-- Ids go in the order in which they came; what may have gone is refused from then on.
local function forget_oldest(item)
  local oldest = redis.call('XRANGE', item.claims, '-', '+', 'COUNT', 1)[1]
  local slot = tonumber(oldest[2][4])
  local before = tonumber(redis.call('GET', item.memory) or '-inf') or -math.huge
  if slot > before then
    redis.call('SET', item.memory, oldest[2][4])
  end
  redis.call('XDEL', item.claims, oldest[1])
end

local function decide(item, fields)
  local request = request_of(fields)
  local forgotten = redis.call('GET', item.memory)
  local too_old = request.number <= NOW - settings().memory
    or (forgotten and request.number <= tonumber(forgotten) or false)
  local refused = refusal(request, too_old)
  if refused then
    local holder = holder_in_records(item, request.slot)
    return holder and held_by(holder, request) or refused
  end
  redis.call('HLEN', item.open)
  local before = prepare(item)
  local id = redis.call('XADD', item.claims, 'IDMP', PRODUCER, request.slot, '*', 't', request.token, 's', request.slot)
  local after = redis.call('XLEN', item.claims)
  if after == before then
    local entry = redis.call('XRANGE', item.claims, id, id)[1]
    if not entry or entry[2][2] ~= request.token then
      return {'taken', '', ''}
    end
    return {'won', '', ''}
  end
  open_record(item, request)
  if before == 0 then
    name_in_index(item)
  end
  if after > ENTRIES_MAX then
    forget_oldest(item)
  end
  return {'won', '', ''}
end

return serve(KEY_NAMES, decide)
