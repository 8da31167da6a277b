-- Takes what a node has counted of keys to what all nodes have counted, and says what that is.
--
-- The value of a key: when a node has used it last, then the numbers of its counters, of a rate three: when its period began, its events, those of
-- the period before. Times are milliseconds of the clock of the store. KEYS: the keys. ARGV: how long a key is kept that is not used; the periods of
-- the counters, 0 of a sum; then for each key what becomes of its numbers (0: it is asked for, 1: they are added, 2: the larger ones count, 3: they
-- replace what is there), how long ago it was used, and the numbers, of a rate how long ago its period began. Replies for each key with how long ago
-- it was used and its numbers in that form; with nothing for one that is not known.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local count_max = 9007199254740991

local function numbers(text)
  local all = {}
  for word in string.gmatch(text, '%d+') do
    all[#all + 1] = tonumber(word)
  end
  return all
end

local function text_of(all)
  local words = {}
  for i, number in ipairs(all) do
    words[i] = string.format('%.0f', number)
  end
  return table.concat(words, ' ')
end

-- A rate as it is now.
local function rolled(rate, period)
  local elapsed = now - rate[1]
  if elapsed >= 2 * period then
    return {now, 0, 0}
  elseif elapsed >= period then
    return {rate[1] + period, 0, rate[2]}
  end
  return rate
end

-- The events of the period that ends now.
local function events(rate, period)
  local at = rolled(rate, period)
  return at[2] + at[3] * (period - math.max(now - at[1], 0)) / period
end

local function merged_rate(merge, all, own, period)
  if merge == 1 then
    if own[2] > 0 then
      all = rolled(all, period)
      all = {all[1], math.min(all[2] + own[2], count_max), all[3]}
    end
    return all
  end
  own = {now - own[1], own[2], own[3]}
  if merge == 3 or events(own, period) > events(all, period) then
    return own
  end
  return all
end

local function merged_sum(merge, all, own)
  if merge == 1 then
    return math.min(all + own, count_max)
  end
  return merge == 3 and own or math.max(all, own)
end

local expire, periods = tonumber(ARGV[1]), numbers(ARGV[2])
local size = 1
for _, period in ipairs(periods) do
  size = size + (period == 0 and 1 or 3)
end
local replies = {}
for i, key in ipairs(KEYS) do
  local told = numbers(ARGV[i + 2])
  local merge = told[1]
  local value = numbers(redis.call('GET', key) or '')
  local is_known, is_counted = #value == size, merge > 1
  if not is_known then
    value = {0}
  end
  if merge > 0 then
    local merged = {math.max(value[1], now - told[2])}
    local at = 2
    for _, period in ipairs(periods) do
      if period == 0 then
        is_counted = is_counted or told[at + 1] > 0
        merged[at] = merged_sum(merge, value[at] or 0, told[at + 1])
        at = at + 1
      else
        is_counted = is_counted or told[at + 2] > 0
        local all = is_known and {value[at], value[at + 1], value[at + 2]} or {now, 0, 0}
        local own = {told[at + 1], told[at + 2], told[at + 3]}
        merged[at], merged[at + 1], merged[at + 2] = unpack(merged_rate(merge, all, own, period))
        at = at + 3
      end
    end
    local left = expire - (now - merged[1])
    if left > 0 and (is_known or is_counted) then
      redis.call('SET', key, text_of(merged), 'PX', string.format('%.0f', left))
      value, is_known = merged, true
    end
  end
  replies[i] = false
  if is_known then
    local at, reply = 2, {math.max(now - value[1], 0)}
    for _, period in ipairs(periods) do
      reply[at] = value[at]
      if period > 0 then
        reply[at], reply[at + 1], reply[at + 2] = math.max(now - value[at], 0), value[at + 1], value[at + 2]
      end
      at = at + (period == 0 and 1 or 3)
    end
    replies[i] = text_of(reply)
  end
end
return replies
