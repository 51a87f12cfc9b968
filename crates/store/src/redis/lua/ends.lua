-- Ends many leases, each as commit.lua or release.lua would, and asks for the life once. For one server without slots alone.
-- PAIRS (scripts.rs): the entry and the lease of each. ARGV: linger, then of each its counter, its nonce, the entry's life in ms ('' to
-- release it), and the entry. Returns of each 1 when it is done, 0 when it is fenced, or the text of the server's error: none keeps the
-- others from their end.
local function stores(at) return ARGV[at + 2] ~= '' and tonumber(ARGV[at + 2]) > 0 end
local function ended(at)
  if not holds(read_lease(), ARGV[at], ARGV[at + 1]) then return 0 end
  local life_ms = ARGV[at + 2]
  if stores(at) then
    -- Before the DEL: where memory is full this fails and the lease stays, to be released by its holder.
    redis.call('SET', KEYS[1], LIFE .. ARGV[at + 3], 'PX', life_ms)
  elseif life_ms ~= '' then
    redis.call('DEL', KEYS[1])
  end
  redis.call('DEL', KEYS[2])
  return 1
end
local done = {}
local function end_all(do_store)
  for number = 1, #PAIRS / 2 do
    local at = 4 * number - 2
    if stores(at) == do_store then
      KEYS[1], KEYS[2] = PAIRS[2 * number - 1], PAIRS[2 * number]
      local is_well, result = pcall(ended, at)
      -- An error is a table from Redis 7 on, and a text before.
      if not is_well and type(result) == 'table' then result = result.err end
      done[number] = is_well and result or tostring(result)
    end
  end
end
-- A full server refuses a SET only before the script has written anything.
end_all(true)
end_all(false)
return done
