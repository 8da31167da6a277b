// Node's http2: node.mjs BASE CA FILE-OF-100-MB
import http2 from 'node:http2';
import fs from 'node:fs';
import crypto from 'node:crypto';
const [base, ca, file] = process.argv.slice(2);
const session = http2.connect(base, { ca: fs.readFileSync(ca), settings: { initialWindowSize: 1 << 20 } });
session.on('error', (fault) => console.log('session', fault.message));
const settings = new Promise((done) => session.once('remoteSettings', done));
const short = (hash) => hash.digest('hex').slice(0, 16);
const request = (path, fields = {}, from) => new Promise((done, fail) => {
  const stream = session.request({ ':path': path, ...fields }, { endStream: !from });
  const hash = crypto.createHash('sha256');
  const answer = { length: 0, text: '', times: [] };
  stream.on('response', (head) => { answer.status = head[':status']; });
  stream.on('trailers', (fields) => { answer.trailers = fields; });
  stream.on('data', (part) => { hash.update(part); answer.length += part.length; answer.times.push(Date.now()); if (answer.length < 200) answer.text += part; });
  stream.on('end', () => { answer.digest = short(hash); done(answer); });
  stream.on('error', fail);
  if (from) from.pipe(stream);
});
const test = async (name, run) => { try { console.log(name, await run()); } catch (fault) { console.log(name, 'failed:', fault.message); } };
for (const n of [0, 1, 612, 16384, 100000, 1000000])
  await test(`get-${n}`, async () => { const a = await request(`/size/${n}`); return `${a.status} ${a.digest}`; });
for (const n of [404, 204]) await test(`status-${n}`, async () => (await request(`/status/${n}`)).status);
await test('trailer', async () => (await request('/trailer')).trailers['x-end']);
await test('get-100MB', async () => (await request('/size/100000000')).digest);
await test('post-100MB', async () => (await request('/digest', { ':method': 'POST' }, fs.createReadStream(file))).text);
await test('echo-100MB', async () => (await request('/echo', { ':method': 'POST' }, fs.createReadStream(file))).digest);
await test('events', async () => { const a = await request('/events'); return `${a.digest} ${a.times.at(-1) - a.times[0] > 700 ? 'one-by-one' : 'together'}`; });
await test('websocket', async () => {
  if (!(await settings).enableConnectProtocol) return 'not announced';
  const stream = session.request({ ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/ws', 'sec-websocket-version': '13' }, { endStream: false });
  const status = await new Promise((done, fail) => { stream.on('response', (head) => done(head[':status'])); stream.on('error', fail); });
  let got = Buffer.alloc(0), wake = () => {};
  stream.on('data', (part) => { got = Buffer.concat([got, part]); wake(); });
  let all = 'same';
  for (const size of [5, 3000, 100000, 5]) {
    const payload = crypto.randomBytes(size);
    const head = size < 126 ? Buffer.from([0x82, 128 | size]) : size < 65536 ? Buffer.from([0x82, 254, size >> 8, size & 255])
      : Buffer.from([0x82, 255, 0, 0, 0, 0, 0, size >> 16, (size >> 8) & 255, size & 255]);
    const back = head.length + size;
    got = Buffer.alloc(0);
    stream.write(Buffer.concat([head, Buffer.alloc(4), payload]));
    while (got.length < back) await new Promise((done) => { wake = done; });
    if (!got.subarray(-size).equals(payload)) all = 'different';
  }
  stream.write(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 3, 0xe8]));
  await new Promise((done) => { stream.on('end', done); stream.on('close', done); });
  stream.end();
  return `${status} ${all}`;
});
await test('streams-1000', async () => {
  const all = await Promise.all(Array.from({ length: 1000 }, (_, i) => request(`/size/10000?wait=100ms&i=${i}`)));
  return `${all.length} ${[...new Set(all.map((a) => `${a.status} ${a.digest}`))].join(', ')}`;
});
await test('cancel', async () => {
  const id = `node-${Math.random()}`;
  const stream = session.request({ ':path': `/slow?id=${id}` });
  await new Promise((done) => { let n = 0; stream.on('data', () => { if (++n === 3) done(); }); });
  stream.close(http2.constants.NGHTTP2_CANCEL);
  const state = (await request(`/state?id=${id}`)).text;
  return `${state} then ${(await request('/size/1000')).length} on the same connection`;
});
session.close();
