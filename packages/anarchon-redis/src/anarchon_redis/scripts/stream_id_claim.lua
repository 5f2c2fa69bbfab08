-- The strategy "stream-id": the slot is the id of a stream's entry. A stream takes only ids greater than every id
-- before, also than those that were trimmed: a slot is granted once, and never after a newer one.

local function holder_of(item, id, newest)
  if newest[1] == id then
    return newest
  end
  return redis.call('XRANGE', item.claims, id, id)[1]
end

local function decide(item, fields)
  local request = request_of(fields)
  local id = request.slot .. '-1'
  local newest = redis.call('XREVRANGE', item.claims, '+', '-', 'COUNT', 1)[1]
  -- Trimming takes what is older than the memory, the new entry too if it were.
  local forgotten = request.number <= NOW - settings().memory
  if newest and tonumber(string.match(newest[1], '^%d+')) >= request.number then
    local entry = holder_of(item, id, newest)
    if entry then
      return held_by(entry[2][2], request)
    end
    forgotten = true
  end
  local refused = refusal(request, forgotten)
  if refused then
    return refused
  end
  open_record(item, request)
  local least = text(math.max(0, NOW - settings().memory))
  local added = redis.pcall('XADD', item.claims, 'MINID', '~', least, id, 't', request.token)
  if type(added) == 'table' and added.err then
    redis.call('HDEL', item.open, request.slot)
    -- Entries that were deleted by hand still count.
    if string.find(added.err, 'equal or smaller', 1, true) then
      return {'late', 'too_old', ''}
    end
    error(added)
  end
  if not newest then
    name_in_index(item)
  end
  return {'won', '', ''}
end

return serve(KEY_NAMES, decide)
