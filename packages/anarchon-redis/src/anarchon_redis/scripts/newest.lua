-- Newest first: the records of a job whose slots are not below the least one.
local function newest_records(item, found)
  local members = redis.call('ZREVRANGEBYSCORE', item.runs, '+inf', settings().least, 'LIMIT', 0, settings().limit)
  for first = 1, #members, 500 do
    local part = {unpack(members, first, math.min(first + 499, #members))}
    for place, record in ipairs(redis.call('HMGET', item.records, unpack(part))) do
      if record then
        found[#found + 1] = {part[place], record}
      end
    end
  end
end
