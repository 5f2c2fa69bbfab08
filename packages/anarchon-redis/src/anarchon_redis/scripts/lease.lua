-- What the scripts of the lease strategy share: the state of a job.
--
-- A job is known when its state has the field `high`. It has an unfinished run when `slot` is not empty; that run was
-- released when `token` is. A text that may be empty itself (fingerprint, digests) has a '=' in front.

local KEY_NAMES = {'state', 'runs', 'records'}

local function load_state(item)
  local read = redis.call('HMGET', item.state, 'high', 'slot', 'attempt', 'token', 'instance', 'until', 'crashes',
    'previous', 'claimed', 'started', 'skip_slot', 'skip_token', 'skip_previous', 'fingerprint', 'digests', 'since')
  -- All at once: a table that grows field by field is copied again and again.
  return {
    known = read[1] and true or false, high = read[1] or '', slot = read[2] or '', attempt = read[3] or '',
    token = read[4] or '', instance = read[5] or '', ['until'] = read[6] or '', crashes = read[7] or '',
    previous = read[8] or '', claimed = read[9] or '', started = read[10] or '', skip_slot = read[11] or '',
    skip_token = read[12] or '', skip_previous = read[13] or '', fingerprint = read[14] or '',
    digests = read[15] or '', since = read[16] or '',
  }
end

-- Write some fields, given as a flat list of names and values.
local function save(item, state, changes)
  for place = 1, #changes, 2 do
    state[changes[place]] = changes[place + 1]
  end
  if not state.known then
    name_in_index(item)
    if state.high == '' then
      changes[#changes + 1] = 'high'
      changes[#changes + 1] = ''
    end
    state.known = true
  end
  redis.call('HSET', item.state, unpack(changes))
end

local function end_run(item, state)
  save(item, state, {
    'slot', '', 'attempt', '', 'token', '', 'instance', '', 'until', '', 'crashes', '', 'previous', '',
    'claimed', '', 'started', '',
  })
end

local function remaining(state)
  if state.token == '' then
    return 0
  end
  return math.max(0, state['until'] - NOW)
end

local function run_view(state)
  return state.slot, state.attempt, text(remaining(state)), state.instance
end

-- The unfinished run is the asker's while its token is the one that is remembered.
local function owns(state, slot, attempt, token)
  return state.slot == slot and state.attempt == attempt and state.token ~= '' and state.token == token
end

local function close_run(item, state, status, reason, started, problem)
  keep_record(item, state.slot, state.attempt, {
    state.token, status, reason, state.instance, state.claimed, started, NOW_TEXT, problem,
  })
end

-- The changes that write down the schedule of whoever was granted something.
local function schedule_changes(state, fingerprint, digests, changes)
  if fingerprint == '' or (fingerprint == state.fingerprint and digests == state.digests) then
    return
  end
  if state.fingerprint ~= '' and state.fingerprint ~= fingerprint then
    changes[#changes + 1] = 'since'
    changes[#changes + 1] = NOW_TEXT
  end
  changes[#changes + 1] = 'fingerprint'
  changes[#changes + 1] = fingerprint
  changes[#changes + 1] = 'digests'
  changes[#changes + 1] = digests
end

-- A hint may get lost, also because this user may not publish; it must fail nothing.
local function publish_end(item, slot, attempt)
  redis.pcall('PUBLISH', string.gsub(item.key, ':state$', ':hints'), slot .. ':' .. attempt)
end
