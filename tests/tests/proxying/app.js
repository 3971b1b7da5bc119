// An application for tests of the proxy: it tells what it was asked, and speaks WebSocket (RFC 6455) as far as an echo needs it.
const { readFileSync } = require('fs');
const http = require('http');
const https = require('https');
const { createHash } = require('crypto');
let finished = 0;

function tell(request, response, body) {
  const told = { pid: process.pid, method: request.method, url: request.url, fields: request.rawHeaders };
  response.setHeader('X-App', 'node');
  response.end(JSON.stringify({ ...told, bytes: body.length, digest: createHash('sha256').update(body).digest('hex') }));
}

const [, , port, cert, key] = process.argv;
const options = cert ? { cert: readFileSync(cert), key: readFileSync(key) } : {};
const server = (cert ? https : http).createServer(options, (request, response) => {
  const [path, count] = request.url.split('?');
  if (path === '/events') {
    // The next event comes when the test has had this one.
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write('data: first\n\n');
    server.once('next', () => response.end('data: last\n\n'));
  } else if (path === '/next') {
    server.emit('next');
    response.end();
  } else if (path === '/much') {
    response.on('finish', () => finished++);
    response.end(Buffer.alloc(Number(count), 'x'));
  } else if (path === '/echo') {
    request.pipe(response);
  } else if (path === '/early') {
    response.writeHead(413, { Connection: 'close' }).end('too large');
  } else if (path === '/trailers') {
    response.writeHead(200, { Trailer: 'X-Sum' });
    request.resume().on('end', () => {
      response.addTrailers({ 'X-Sum': request.trailers['x-end'] + request.headers['te'] });
      response.end('ok');
    });
  } else if (path === '/finished') {
    response.end(String(finished));
  } else if (path === '/v2/moved') {
    const own = 'http://127.0.0.1:' + server.address().port;
    response.writeHead(302, { Location: own + '/v2/login?x', 'Set-Cookie': 'a=b; Path=/v2', 'X-Powered-By': 'node' });
    response.end();
  } else {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => tell(request, response, Buffer.concat(pieces)));
  }
});

server.on('checkContinue', (request, response) => {
  if (request.url !== '/early') response.writeContinue();
  server.emit('request', request, response);
});

server.on('upgrade', (request, socket) => {
  const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = createHash('sha1').update(key).digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + accept + '\r\n\r\n');
  let waiting = Buffer.alloc(0);
  socket.on('data', (bytes) => {
    waiting = Buffer.concat([waiting, bytes]);
    while (waiting.length >= 2 && waiting.length >= 6 + (waiting[1] & 127)) {
      const [length, mask] = [waiting[1] & 127, waiting.subarray(2, 6)];
      const text = waiting.subarray(6, 6 + length).map((byte, at) => byte ^ mask[at % 4]);
      socket.write(Buffer.concat([Buffer.from([0x81, length]), text]));
      waiting = waiting.subarray(6 + length);
    }
  });
  socket.on('end', () => socket.end());
  socket.on('error', () => {});
});

server.keepAliveTimeout = 60000;
server.listen(port || 0, () => console.log(server.address().port ?? 'ready'));
