-- The strategy "script": one key a slot, set by the first claim, expiring when its slot is older than the memory.

local GRACE = 60000

local function decide(item, fields)
  local request = request_of(fields)
  local holder = redis.call('GET', item.claims)
  if holder then
    return held_by(holder, request)
  end
  local refused = refusal(request, request.number <= NOW - settings().memory)
  if refused then
    return refused
  end
  open_record(item, request)
  name_in_index(item)
  redis.call('SET', item.claims, request.token, 'PXAT', text(request.number + settings().memory + GRACE))
  return {'won', '', ''}
end

return serve(KEY_NAMES, decide)
