-- Hand runs over: the token is taken away and the lease ends now. A token left in place would let a stale renewal
-- bring the run back to a runner that has gone.

local function decide(item, fields)
  local slot, attempt, token, takeover, started_ago = unpack(fields)
  local state = load_state(item)
  if owns(state, slot, attempt, token) then
    local started = state.started == '' and started_of(started_ago) or state.started
    close_run(item, state, 'interrupted', 'handed_over', started, '')
    if takeover == '' then
      end_run(item, state)
    else
      save(item, state, {'token', '', 'until', NOW_TEXT})
    end
    publish_end(item, slot, attempt)
    return {'accepted', state.high}
  end
  local record = record_of(item, slot, attempt)
  if record and record[1] == token and record[2] == 'interrupted' and record[3] == 'handed_over' then
    return {'accepted', state.high}
  end
  return {'refused', state.high}
end

return serve(KEY_NAMES, decide)
