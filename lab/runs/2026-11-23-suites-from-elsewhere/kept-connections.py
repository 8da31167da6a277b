# 50 clients on kept connections (aiohttp), each with REQUESTS requests and a think time of LOW to HIGH seconds between them; counts the statuses:
# kept-connections.py PORT METHOD LOW HIGH REQUESTS
import asyncio, collections, random, sys
import aiohttp

port, method, low, high, requests = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
outcomes = collections.Counter()

async def client(session):
    for _ in range(requests):
        data = None if method == "GET" else b"abc"
        path = "/small" if method == "GET" else "/echo"
        try:
            async with session.request(method, f"http://127.0.0.1:{port}{path}", data=data) as response:
                await response.read()
                outcomes[response.status] += 1
        except Exception as error:
            outcomes[type(error).__name__] += 1
        await asyncio.sleep(random.uniform(low, high))

async def main():
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=70)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=15)) as session:
        await asyncio.gather(*[client(session) for _ in range(50)])

asyncio.run(main())
print(method, low, high, dict(outcomes))
