-- Most claims come alone, and are for a new slot with nothing in its way, for a run that goes on, or for one that has
-- ended: those are answered here. To make the functions of the whole table would take as long again as such a claim.
-- All else, an error too, has changed nothing when it goes on to the table, which would say the same of these.

if COUNT == 1 then
  local slot, attempt, token, instance, lease, not_after, _, max_lateness, _, _, fingerprint, digests
    = unpack(cjson.decode(ARGV[2]))
  local state = redis.pcall('HMGET', KEYS[1], 'high', 'slot', 'attempt', 'token', 'until', 'instance', 'since',
    'skip_slot', 'fingerprint', 'digests')
  local high, live, since = state[1], state[2] or '', state[7] or ''
  -- An error has no fields, and a job that is not known has no `high`.
  if high and (not_after == '' or NOW <= tonumber(not_after)) then
    if live == slot then
      local remaining = state[4] ~= '' and (tonumber(state[5]) or 0) - NOW or 0
      if remaining > 0 and (state[3] ~= attempt or state[4] ~= token) then
        return cjson.encode({NOW_TEXT, {'running', '', high, '', since, '', '', slot, state[3],
          string.format('%.0f', remaining), state[6]}})
      end
    elseif live == '' and high == slot then
      if state[8] ~= slot then
        return cjson.encode({NOW_TEXT, {'done', 'ended', high, '', since, '', ''}})
      end
    elseif live == '' and attempt == '1' and (high == '' or tonumber(slot) > tonumber(high))
      and slot - NOW <= EARLY_TOLERANCE and (max_lateness == '' or NOW - slot <= tonumber(max_lateness))
      and (fingerprint == '' or (fingerprint == state[9] and digests == (state[10] or '')))
    then
      local written = redis.pcall('HSET', KEYS[1], 'slot', slot, 'attempt', attempt, 'token', token,
        'instance', instance, 'until', string.format('%.0f', NOW + lease), 'crashes', '0', 'previous', high,
        'claimed', NOW_TEXT, 'started', '', 'high', slot)
      if type(written) == 'number' then
        return cjson.encode({NOW_TEXT, {'won', '', slot, high, since, '', ''}})
      end
    end
  end
end
