-- Record how runs ended.

local function decide(item, fields)
  local slot, attempt, token, status, reason, problem, started_ago = unpack(fields)
  if attempt ~= '1' then
    return {'refused', ''}
  end
  local running = redis.call('HGET', item.open, slot)
  local record = running and cjson.decode(running)
  if record and record[1] == token then
    record[2], record[3], record[8] = status, reason, problem
    record[6], record[7] = started_of(started_ago), NOW_TEXT
    keep_record(item, slot, attempt, record)
    redis.call('HDEL', item.open, slot)
    return {'accepted', ''}
  end
  record = record_of(item, slot, attempt)
  return {record and record[1] == token and 'accepted' or 'refused', ''}
end

return serve(KEY_NAMES, decide)
