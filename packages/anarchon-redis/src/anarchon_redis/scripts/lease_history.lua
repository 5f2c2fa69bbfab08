-- The newest records of jobs; an attempt that goes on has its record in the job's state.

local function decide(item)
  local found = {}
  local state = load_state(item)
  if state.slot ~= '' and state.token ~= '' then
    found[1] = {member_of(state.slot, state.attempt), cjson.encode({
      state.token, 'running', '', state.instance, state.claimed, state.started, '', '',
    })}
  end
  newest_records(item, found)
  return found
end

return serve(KEY_NAMES, decide)
