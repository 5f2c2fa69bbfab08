-- Close runs whose handlers have ended.

local function decide(item, fields)
  local slot, attempt, token, status, reason, problem, started_ago = unpack(fields)
  local state = load_state(item)
  if owns(state, slot, attempt, token) then
    local started = state.started == '' and started_of(started_ago) or state.started
    close_run(item, state, status, reason, started, problem)
    end_run(item, state)
    publish_end(item, slot, attempt)
    return {'accepted', state.high}
  end
  local record = record_of(item, slot, attempt)
  if record and record[1] == token and (record[2] == 'success' or record[2] == 'failed') then
    return {'accepted', state.high}
  end
  return {'refused', state.high}
end

return serve(KEY_NAMES, decide)
