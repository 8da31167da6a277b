-- 1 000 keys in turn; the second thread begins in the middle.
local threads = 0
function setup(thread) thread:set("n", threads * 500); threads = threads + 1 end
function request()
  n = (n + 1) % 1000
  return wrk.format("GET", "/", { Host = "a.test", ["X-Key"] = tostring(n) })
end
