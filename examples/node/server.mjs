// A chat in one file without packages, to try the config beside it: messages come in by POST or by WebSocket, and go out as
// server-sent events and over every WebSocket of this process.

import { createHash } from 'node:crypto'
import { createServer } from 'node:http'

const [host, port] = (process.env.ADDRESS ?? '127.0.0.1:3001').split(':')
const name = process.env.NAME ?? port
const PAGE = `<!doctype html><meta charset="utf-8"><title>chat</title><h1>Chat on ${name}</h1>
<form id="form"><input id="text" autocomplete="off"><button>Send</button></form><ul id="list"></ul>
<script>
  const show = text => { const item = document.createElement('li'); item.textContent = text; list.append(item) }
  new EventSource('/events').onmessage = event => show('event: ' + event.data)
  const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket')
  socket.onmessage = event => show('socket: ' + event.data)
  form.onsubmit = event => { event.preventDefault(); socket.send(text.value); text.value = '' }
</script>
${'<!-- This page is long enough to be worth compressing. -->\n'.repeat(30)}`

const streams = new Set()
const sockets = new Set()

function say (text) {
  for (const stream of streams) stream.write(`data: ${text}\n\n`)
  for (const socket of sockets) socket.write(frame(1, Buffer.from(text)))
}

const server = createServer((request, response) => {
  if (request.url === '/events') {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    response.write(`data: hello from ${name}\n\n`)
    streams.add(response)
    // Keeps every proxy on the way from taking silence for a failure.
    const ping = setInterval(() => response.write(': still here\n\n'), 15_000)
    response.on('close', () => { clearInterval(ping); streams.delete(response) })
  } else if (request.url === '/say' && request.method === 'POST') {
    let text = ''
    request.setEncoding('utf8').on('data', part => { text += part }).on('end', () => { say(text); response.writeHead(204).end() })
  } else if (request.url === '/healthz') {
    response.end('ok')
  } else {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(PAGE)
  }
})

// RFC 6455, as much of it as text messages of up to 64 KiB need.
server.on('upgrade', (request, socket) => {
  const accept = createHash('sha1').update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`)
  sockets.add(socket)
  let bytes = Buffer.alloc(0)
  socket.on('data', part => { bytes = read(socket, Buffer.concat([bytes, part])) })
  socket.on('error', () => socket.destroy()).on('end', () => socket.end()).on('close', () => sockets.delete(socket))
})

function read (socket, bytes) {
  for (;;) {
    if (bytes.length < 2) return bytes
    const short = bytes[1] & 127
    const head = short === 126 ? 4 : 2
    if (short === 127 || bytes.length < head + 4) return bytes
    const length = short === 126 ? bytes.readUInt16BE(2) : short
    if (bytes.length < head + 4 + length) return bytes
    const mask = bytes.subarray(head, head + 4)
    const data = Buffer.from(bytes.subarray(head + 4, head + 4 + length)).map((byte, at) => byte ^ mask[at % 4])
    const kind = bytes[0] & 15
    if (kind === 1) say(data.toString())
    if (kind === 8) socket.end(frame(8, data))
    if (kind === 9) socket.write(frame(10, data))
    bytes = bytes.subarray(head + 4 + length)
  }
}

function frame (kind, data) {
  const head = data.length < 126 ? Buffer.from([128 | kind, data.length]) : Buffer.from([128 | kind, 126, data.length >> 8, data.length & 255])
  return Buffer.concat([head, data])
}

server.listen(Number(port), host)
