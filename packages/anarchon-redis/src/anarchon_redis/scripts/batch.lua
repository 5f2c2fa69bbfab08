-- How every script serves a batch, item by item.

-- Most calls never look at them.
local read_settings
local function settings()
  read_settings = read_settings or cjson.decode(ARGV[1])
  return read_settings
end

local function text(number)
  return string.format('%.0f', number)
end

-- The name of a job stands in its keys, between the braces.
local function name_in_index(item)
  if item.index then
    redis.call('SADD', item.index, string.match(item.key, '{(.*)}'))
  end
end

-- One item's error is answered in its place, and its neighbours are served. Where there is a glance, it has answered
-- some at the front, and is asked first for those behind the one that it could not answer.
local function serve(names, decide, glance, glanced)
  local answers = glanced or {NOW_TEXT}
  local stride = #names
  local index = KEYS[COUNT * stride + 1]
  local first = #answers
  for number = first, COUNT do
    local before = (number - 1) * stride
    local fields = cjson.decode(ARGV[number + 1])
    local served, answer
    if glance and number > first then
      served, answer = pcall(glance, KEYS[before + 1], fields)
    end
    if not served or not answer then
      -- The empty fields make room: a table that grows field by field is copied again and again.
      local item = {index = index, key = KEYS[before + 1], runs = nil, records = nil, state = nil, open = nil, claims = nil}
      for place = 1, stride do
        item[names[place]] = KEYS[before + place]
      end
      served, answer = pcall(decide, item, fields)
      if not served then
        answer = {'error', type(answer) == 'table' and answer.err or tostring(answer)}
      end
    end
    answers[number + 1] = answer
  end
  return cjson.encode(answers)
end
