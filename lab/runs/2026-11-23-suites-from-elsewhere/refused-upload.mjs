// Posts a stream of 39 MB to http://127.0.0.1:PORT/refuse, COUNT times, and counts the 413s: node refused-upload.mjs PORT COUNT
const [port, count] = process.argv.slice(2);
async function* body() {
  for (let piece = 0; piece < 600; piece++) yield Buffer.alloc(65536);
}
let answered = 0;
for (let at = 0; at < count; at++) {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/refuse`, { method: "POST", body: body(), duplex: "half" });
    await response.text();
    if (response.status === 413) answered++;
  } catch {}
}
console.log(`${port}: ${answered} of ${count}`);
