-- The newest records of jobs, those of unfinished attempts among them.

local function decide(item)
  local found = {}
  local running = redis.call('HGETALL', item.open)
  for place = 1, #running, 2 do
    found[#found + 1] = {member_of(running[place], 1), running[place + 1]}
  end
  newest_records(item, found)
  return found
end

return serve(KEY_NAMES, decide)
