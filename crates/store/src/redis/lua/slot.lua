-- Reading one key's slot: shared front of the scripts below it. The meaning is crates/core/src/lease/slot.rs.
-- KEYS[1] entry: its life (16 bytes), then its own bytes (layout: crates/core/src/entry.rs).
-- KEYS[2] lease: "life:counter:nonce:database:holder".
-- ARGV[1] is always for how long, in ms, a lapsed lease's record lingers: it is part of the record's
-- expiry, so PTTL minus it is what is left of the lease. Time is Redis' own: PTTL and TIME.
local COUNTER_MAX = 9007199254740991
local LINGER_MS = tonumber(ARGV[1])

-- limits.rs ENTRY_LIFE_MS_MAX.
local LIFE_MS_MAX = 315360000000

-- The head of the entry's own bytes, if it is of this life and of our format.
local function read_head()
  local head = redis.call('GETRANGE', KEYS[1], 0, 109)
  if #head < 110 or string.sub(head, 1, 19) ~= LIFE .. 'HC\5' then return nil end
  return string.sub(head, 17)
end

-- The entry's times and counter, if it is one with lives in order, and still kept. Its age is
-- its total life (the end of stale-if-error) less what is left of it here: one clock.
local function read_entry()
  local head = read_head()
  if not head then return nil end
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 then return nil end
  local total, soft, physical = struct.unpack('>I8I8I8', string.sub(head, 5, 28))
  if not (soft <= physical and physical <= total and total <= LIFE_MS_MAX) then return nil end
  local counter = struct.unpack('>I8', string.sub(head, 37, 44))
  return { left = left, age = math.max(total - left, 0), soft = soft, counter = counter }
end

-- The lease's record, if it is of this life; it is current while left > 0.
local function read_lease()
  local text = redis.call('GET', KEYS[2])
  if not text then return nil end
  local life, counter, nonce, database, holder = string.match(text, '^(%x+):(%d+):(%x+):(%x+):(.+)$')
  if life ~= LIFE then return nil end
  local left = redis.call('PTTL', KEYS[2]) - LINGER_MS
  return { counter = counter, nonce = nonce, database = database, holder = holder, left = left }
end

-- Whether the current lease's token is exactly this one. Missing or lapsed is no (promise I3).
local function holds(lease, counter, nonce)
  return lease and lease.left > 0 and lease.counter == counter and lease.nonce == nonce
end

-- What goes back: what happened, the lease, and the entry; its bytes only up to bytes_max (the caller
-- fetches a larger one on the connection of bodies).
local function answer(what, lease, entry, bytes_max)
  local bytes, length, left = '', -1, 0
  if entry then
    length, left = redis.call('STRLEN', KEYS[1]) - #LIFE, entry.left
    if length <= bytes_max then bytes = redis.call('GETRANGE', KEYS[1], #LIFE, -1) end
  end
  lease = lease or { counter = '0', nonce = '0', holder = '', left = 0 }
  return { what, lease.counter, lease.nonce, lease.holder, lease.left, left, length, bytes }
end
