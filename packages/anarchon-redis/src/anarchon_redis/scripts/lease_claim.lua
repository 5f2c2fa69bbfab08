-- The table of answers to a claim: the first row that fits decides.

local function won(state, previous)
  return {'won', '', state.high, previous, state.since, '', ''}
end

-- Every other answer names the run that is live: whoever hears it becomes a backup of that run.
local function lost(state, verdict, reason, previous, recorded, wait)
  local told = {verdict, reason or '', state.high, previous or '', state.since, recorded or '', wait or ''}
  if state.slot ~= '' then
    told[8], told[9], told[10], told[11] = run_view(state)
  end
  return told
end

local function grant_changes(request, crashes, previous)
  return {
    'slot', request.slot, 'attempt', request.attempt, 'token', request.token, 'instance', request.instance,
    'until', text(NOW + request.lease), 'crashes', text(crashes), 'previous', previous, 'claimed', NOW_TEXT, 'started', '',
  }
end

local function close_dead(item, state, reason)
  -- A released run was closed when it was released.
  if state.token ~= '' then
    close_run(item, state, 'interrupted', reason, state.started, '')
  end
end

local function same_run(item, state, request)
  local released = state.token == ''
  local over = released or tonumber(state['until']) <= NOW
  if not over or tonumber(request.attempt) ~= state.attempt + 1 then
    return lost(state, 'running')
  end
  local crashes = tonumber(state.crashes)
  if not released then
    crashes = crashes + 1
  end
  local given_up = ''
  if request.takeover == '' then
    given_up = 'takeover_off'
  elseif not released and crashes >= tonumber(request.max_crashes) then
    given_up = 'max_crashes'
  end
  if given_up ~= '' then
    close_dead(item, state, given_up)
    end_run(item, state)
    return lost(state, 'done', 'given_up')
  end
  local previous = state.previous
  close_dead(item, state, 'lease_expired')
  local changes = grant_changes(request, crashes, previous)
  schedule_changes(state, request.fingerprint, request.digests, changes)
  save(item, state, changes)
  return won(state, previous)
end

local function new_slot(item, state, request)
  local ahead = request.slot - NOW
  if ahead > EARLY_TOLERANCE then
    return lost(state, 'early', '', '', '', text(ahead))
  end
  if request.max_lateness ~= '' and -ahead > tonumber(request.max_lateness) then
    return lost(state, 'late', 'too_old')
  end
  local live = state.slot ~= ''
  if live and request.overlap == 'wait' then
    return lost(state, 'overlap')
  end
  local previous = state.high
  if live and state.token ~= '' and tonumber(state['until']) > NOW then
    keep_record(item, request.slot, request.attempt, {
      request.token, 'skipped', 'overlap', request.instance, NOW_TEXT, '', NOW_TEXT, '',
    })
    local changes = {
      'high', request.slot, 'skip_slot', request.slot, 'skip_token', request.token, 'skip_previous', previous,
    }
    schedule_changes(state, request.fingerprint, request.digests, changes)
    save(item, state, changes)
    return lost(state, 'overlap', '', previous, '1')
  end
  if live then
    close_dead(item, state, 'superseded')
  end
  local changes = grant_changes(request, 0, previous)
  changes[#changes + 1] = 'high'
  changes[#changes + 1] = request.slot
  schedule_changes(state, request.fingerprint, request.digests, changes)
  save(item, state, changes)
  return won(state, previous)
end

local function decide(item, fields)
  local request = {
    slot = fields[1], attempt = fields[2], token = fields[3], instance = fields[4], lease = fields[5],
    not_after = fields[6], overlap = fields[7], max_lateness = fields[8], max_crashes = fields[9],
    takeover = fields[10], fingerprint = fields[11], digests = fields[12],
  }
  local state = load_state(item)
  if owns(state, request.slot, request.attempt, request.token) then
    save(item, state, {'until', text(NOW + request.lease)})
    return won(state, state.previous)
  end
  if state.skip_slot == request.slot and state.high == request.slot and state.skip_token == request.token then
    return lost(state, 'overlap', '', state.skip_previous, '1')
  end
  if request.not_after ~= '' and NOW > tonumber(request.not_after) then
    return lost(state, 'late', 'expired')
  end
  if state.slot == request.slot then
    return same_run(item, state, request)
  end
  if state.high ~= '' and tonumber(request.slot) <= tonumber(state.high) then
    if request.slot == state.high then
      return lost(state, 'done', 'ended')
    end
    return lost(state, 'late', 'superseded')
  end
  if tonumber(request.attempt) > 1 then
    return lost(state, 'none')
  end
  return new_slot(item, state, request)
end

return serve(KEY_NAMES, decide, glance, GLANCED)
