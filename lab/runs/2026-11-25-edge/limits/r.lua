local n = 0
request = function()
  n = (n * 1103515245 + 12345) % 2147483648
  wrk.headers["X-Client"] = "client-" .. (n % 100000)
  return wrk.format("GET", "/")
end
