-- Most claims are for a new slot with nothing in its way, for a run that goes on, or for one that has ended: those are
-- answered here, from fewer fields than the table reads; and where all of a call are, nothing else is made. To make the
-- functions of the whole table takes as long as such a claim. All else, an error too, has changed nothing when it goes
-- on to the table, which would say the same of these.

local function glance(key, fields)
  local slot, attempt, token, instance, lease, not_after, _, max_lateness, _, _, fingerprint, digests = unpack(fields)
  local state = redis.pcall('HMGET', key, 'high', 'slot', 'attempt', 'token', 'until', 'instance', 'since',
    'skip_slot', 'fingerprint', 'digests')
  local high, live, since = state[1], state[2] or '', state[7] or ''
  -- An error has no fields, and a job that is not known has no `high`.
  if high and (not_after == '' or NOW <= tonumber(not_after)) then
    if live == slot then
      local remaining = state[4] ~= '' and (tonumber(state[5]) or 0) - NOW or 0
      if remaining > 0 and (state[3] ~= attempt or state[4] ~= token) then
        return {'running', '', high, '', since, '', '', slot, state[3], string.format('%.0f', remaining), state[6]}
      end
    elseif live == '' and high == slot then
      if state[8] ~= slot then
        return {'done', 'ended', high, '', since, '', ''}
      end
    elseif live == '' and attempt == '1' and (high == '' or tonumber(slot) > tonumber(high))
      and slot - NOW <= EARLY_TOLERANCE and (max_lateness == '' or NOW - slot <= tonumber(max_lateness))
      and (fingerprint == '' or (fingerprint == state[9] and digests == (state[10] or '')))
    then
      local written = redis.pcall('HSET', key, 'slot', slot, 'attempt', attempt, 'token', token,
        'instance', instance, 'until', string.format('%.0f', NOW + lease), 'crashes', '0', 'previous', high,
        'claimed', NOW_TEXT, 'started', '', 'high', slot)
      if type(written) == 'number' then
        return {'won', '', slot, high, since, '', ''}
      end
    end
  end
end

-- Up to the first that needs the table: the items of a call are answered in their order.
local GLANCED = {NOW_TEXT}
for number = 1, COUNT do
  local served, answer = pcall(glance, KEYS[3 * number - 2], cjson.decode(ARGV[number + 1]))
  if not served or not answer then
    break
  end
  GLANCED[number + 1] = answer
end
if #GLANCED > COUNT then
  return cjson.encode(GLANCED)
end
