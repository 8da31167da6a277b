-- Adds what a node has taken of keys to what all nodes have taken, and says what they owe.
--
-- The value of a key is the time at which its bucket is whole again, in microseconds of the clock of the store, behind a `b` while the key is
-- blocked. KEYS: the keys. ARGV: the longest debt, the longest block; then for each key what was taken, what it owes at least, and for how
-- long it is blocked. All times are in microseconds. Replies with the debt of each key; of a blocked one, as a negative number.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local debt_max, block_max = tonumber(ARGV[1]), tonumber(ARGV[2])
local debts = {}
for i, key in ipairs(KEYS) do
  local taken, owed, block = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  local value = redis.call('GET', key) or ''
  local full = tonumber(string.match(value, '%d+')) or 0
  local blocked = string.sub(value, 1, 1) == 'b' and full > now
  if not blocked and block > 0 then
    blocked, full = true, 0
  end
  if blocked then
    full = math.min(math.max(full, now + block), now + block_max)
  else
    if taken > 0 then
      full = math.max(full, now)
    end
    full = math.min(math.max(full + taken, now + owed), now + debt_max)
  end
  local debt = math.max(full - now, 0)
  if debt > 0 then
    redis.call('SET', key, (blocked and 'b' or '') .. string.format('%.0f', full), 'PX', math.ceil(debt / 1000))
  elseif value ~= '' then
    redis.call('DEL', key)
  end
  debts[i] = blocked and -debt or debt
end
return debts
