-- What the scripts of the claim-only strategies share: who holds a slot is told by `claims`, whatever that key is;
-- `open` (a hash, slot to record) keeps the attempts that nobody has finished.

local KEY_NAMES = {'open', 'runs', 'records', 'claims', 'memory'}

local function request_of(fields)
  return {
    slot = fields[1], number = tonumber(fields[1]), attempt = fields[2], token = fields[3], instance = fields[4],
    not_after = fields[5],
  }
end

local function held_by(holder, request)
  return {holder == request.token and 'won' or 'taken', '', ''}
end

-- Why a slot that nobody is known to hold cannot be granted; nil if it can.
local function refusal(request, forgotten)
  if request.not_after ~= '' and NOW > tonumber(request.not_after) then
    return {'late', 'expired', ''}
  end
  if forgotten then
    return {'late', 'too_old', ''}
  end
  if request.attempt ~= '1' then
    return {'none', '', ''}
  end
  if request.number - NOW > EARLY_TOLERANCE then
    return {'early', '', text(request.number - NOW)}
  end
  return nil
end

local function open_record(item, request)
  redis.call('HSET', item.open, request.slot, cjson.encode({
    request.token, 'running', '', request.instance, NOW_TEXT, '', '', '',
  }))
end
