-- Make jobs known, and tell what was known of them.

local function decide(item, fields)
  local slot, fingerprint, digests = fields[1], fields[2], fields[3]
  if slot ~= '' and tonumber(slot) > NOW then
    return {'ahead', text(slot - NOW)}
  end
  local state = load_state(item)
  if not state.known then
    save(item, state, {'high', slot, 'fingerprint', fingerprint, 'digests', digests})
    return {'new', slot, '', '', ''}
  end
  local before, before_digests = state.fingerprint, state.digests
  local changes = {}
  schedule_changes(state, fingerprint, digests, changes)
  if #changes > 0 and (before ~= fingerprint or before_digests ~= digests) then
    save(item, state, changes)
  end
  local told = {'known', state.high, state.since, before, before_digests}
  if state.slot ~= '' then
    told[6], told[7], told[8], told[9] = run_view(state)
  end
  return told
end

return serve(KEY_NAMES, decide)
