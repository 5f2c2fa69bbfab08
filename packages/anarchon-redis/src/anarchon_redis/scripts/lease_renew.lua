-- Push leases forward, while the token is the one that is remembered: the runner is alive, which is all that a
-- lease is about.

local function decide(item, fields)
  local slot, attempt, token, lease, started_ago = unpack(fields)
  local state = load_state(item)
  if not owns(state, slot, attempt, token) then
    return {'lost', state.high}
  end
  local changes = {'until', text(NOW + lease)}
  if state.started == '' and started_ago ~= '' then
    changes[3], changes[4] = 'started', started_of(started_ago)
  end
  save(item, state, changes)
  return {'held', state.high}
end

return serve(KEY_NAMES, decide)
