-- Which of the watched runs are still executed by somebody?

local function decide(item, fields)
  local live = redis.call('HMGET', item.state, 'slot', 'attempt', 'token')
  return (live[1] == fields[1] and live[2] == fields[2] and live[3] and live[3] ~= '') and 'goes on' or 'changed'
end

return serve(KEY_NAMES, decide)
