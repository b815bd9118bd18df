import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'vitest'
import { HeadReader } from './read-head.ts'

const isStream = (path: string) => path !== '/v1/jobs'

const read = (request: string, maxHeaderBytes = 16_384) =>
  new HeadReader({ maxHeaderBytes, isStream }).read(Buffer.from(request, 'latin1'))

/** A request as programs write it. */
function request({
  line = 'POST /v1/jobs?x=1 HTTP/1.1',
  headers = ['Host: here:80', 'Content-Type: application/json', 'Content-Length: 4'],
  body = 'abcd',
} = {}): string {
  return `${[line, ...headers].join('\r\n')}\r\n\r\n${body}`
}

test('a plain POST is read whole', () => {
  const headers = [
    'Host: here:80',
    'X-Empty:',
    'accept:\t */* ',
    'CONTENT-LENGTH: 4',
    'Connection: Keep-Alive',
  ]
  const whole = read(request({ headers }))!
  assert.equal(whole.target, '/v1/jobs?x=1')
  assert.equal(Buffer.from(whole.body).toString(), 'abcd')
  assert.deepEqual(Object.fromEntries(whole.headers), {
    host: 'here:80',
    'x-empty': '',
    accept: '*/*',
    'content-length': '4',
    connection: 'Keep-Alive',
  })
})

test('a GET is read when it opens a stream of events', () => {
  const getOf = (path: string, ...headers: string[]) =>
    request({ line: `GET ${path}?x=1 HTTP/1.1`, headers, body: '' })
  const get = (...headers: string[]) => getOf('/v1/events', ...headers)
  const whole = read(get('Host: h', 'Accept: text/event-stream'))!
  assert.deepEqual([whole.method, whole.target, whole.body.length], ['GET', '/v1/events?x=1', 0])
  assert.notEqual(read(get('Host: h', 'Accept: text/event-stream, application/problem+json')), undefined)
  assert.equal(read(get('Host: h')), undefined)
  assert.equal(read(getOf('/v1/jobs', 'Host: h', 'Accept: text/event-stream')), undefined, 'no stream')
  assert.equal(read(get('Host: h', 'Accept: */*')), undefined)
  assert.equal(read(get('Host: h', 'Accept: text/event-stream', 'Content-Length: 0')), undefined)
  assert.equal(read(`${get('Host: h', 'Accept: text/event-stream')}x`), undefined, 'a byte too many')
})

test('headers that come again are the same, and those that come changed are not', () => {
  const reader = new HeadReader({ maxHeaderBytes: 16_384, isStream })
  const ask = (headers: string[], body: string) =>
    reader.read(Buffer.from(request({ headers, body }), 'latin1'))
  const first = ask(['A: 1', 'Content-Length: 1'], 'x')!
  assert.equal(ask(['A: 1', 'Content-Length: 1'], 'y')!.headers, first.headers)
  assert.equal(ask(['A: 2', 'Content-Length: 2'], 'yz')!.headers.get('a'), '2')
  assert.equal(ask(['A: 1', 'Content-Length: 1'], 'yz'), undefined, 'its length is its own')
  assert.equal(ask(['A: 1', 'Content-Length: 1'], 'z')!.headers.get('a'), '1')
})

const one = ['Host: h', 'Content-Length: 4']
const unusual: Readonly<Record<string, string>> = {
  nothing: '',
  'half a head': 'POST / HTTP/1.1\r\nHost: h\r\n',
  'another method': request({ line: 'PUT / HTTP/1.1' }),
  'a method that begins the same': request({ line: 'POSTS / HTTP/1.1' }),
  'an older version': request({ line: 'POST / HTTP/1.0' }),
  'no version': request({ line: 'POST /' }),
  'a target that is no path': request({ line: 'POST http://h/ HTTP/1.1' }),
  'a space in the target': request({ line: 'POST /a b HTTP/1.1' }),
  'two spaces': request({ line: 'POST /a  HTTP/1.1' }),
  'a byte above ASCII in the target': request({ line: 'POST /\xe9 HTTP/1.1' }),
  'a control in the target': request({ line: 'POST /\x01 HTTP/1.1' }),
  'no headers': 'POST / HTTP/1.1\r\n\r\n',
  'no length': request({ headers: ['Host: h'], body: '' }),
  'a byte too few': request({ headers: one, body: 'abc' }),
  'a byte too many': request({ headers: one, body: 'abcde' }),
  'two requests': request({ headers: one }) + request({ headers: one }),
  'a length with a sign': request({ headers: ['Content-Length: +4'] }),
  'a length with zeros before it': request({ headers: ['Content-Length: 04'] }),
  'a length twice in one': request({ headers: ['Content-Length: 4, 4'] }),
  'a length in hex': request({ headers: ['Content-Length: 0x4'] }),
  'a length without end': request({ headers: [`Content-Length: ${'9'.repeat(30)}`] }),
  'a name twice': request({ headers: [...one, 'A: 1', 'a: 2'] }),
  'two lengths': request({ headers: [...one, 'Content-length: 4'] }),
  'a transfer encoding': request({ headers: [...one, 'Transfer-Encoding: chunked'] }),
  'an upgrade': request({ headers: [...one, 'Upgrade: websocket'] }),
  'a last request': request({ headers: [...one, 'Connection: close'] }),
  'a connection that is to be upgraded': request({ headers: [...one, 'Connection: keep-alive, Upgrade'] }),
  'an expectation': request({ headers: [...one, 'Expect: 100-continue'] }),
  'a header folded onto two lines': request({ headers: [...one, 'A: 1', ' 2'] }),
  'a space before the colon': request({ headers: [...one, 'A : 1'] }),
  'a space before the name': request({ headers: [' A: 1', ...one] }),
  'a line without a colon': request({ headers: [...one, 'A'] }),
  'a name that is empty': request({ headers: [...one, ': 1'] }),
  'a name with an underscore': request({ headers: [...one, '__proto__: 1'] }),
  'a lone line feed': request({ headers: [...one, 'A: 1\nB: 2'] }),
  'a lone carriage return': request({ headers: [...one, 'A: 1\rB: 2'] }),
  'a NUL': request({ headers: [...one, 'A: \0'] }),
  'a byte above ASCII in a value': request({ headers: [...one, 'A: \xe9'] }),
  'line feeds alone': 'POST / HTTP/1.1\nContent-Length: 0\n\n',
  'an empty line before it': `\r\n${request()}`,
}

test.each(Object.entries(unusual))('not read here: %s', (_name, text) => {
  assert.equal(read(text), undefined)
})

test('headers that are too large are not read here', () => {
  const head = request({ body: '' }).length
  assert.equal(read(request(), head - 1), undefined)
  assert.notEqual(read(request(), head), undefined)
})

/** What Node understands of a request: the reader must not understand another one. */
async function nodesReadings(requests: readonly string[]): Promise<readonly string[]> {
  await using server = createServer({ requireHostHeader: false }, async (incoming, response) => {
    const { method, url, headers } = incoming
    const body = await text(incoming.setEncoding('latin1'))
    const seen = JSON.stringify({ method, url, headers, body })
    response.writeHead(200, { connection: 'close' }).end(seen)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const ask = async (request: string) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    socket.write(Buffer.from(request, 'latin1'))
    const answer = (await text(socket).catch(() => '')).split('\r\n\r\n')
    return answer[1]?.match(/\{.*\}/s)?.[0] ?? ''
  }
  return await Promise.all(requests.map(ask))
}

test('Node reads every accepted request in the same way', async () => {
  // Every byte of a request in turn is left out, doubled, or becomes one that has a meaning.
  const post = request({ headers: ['Host: h', 'Accept: a b', 'Content-Length: 2'], body: '{}' })
  const get = request({ line: 'GET /e?a HTTP/1.1', headers: ['A: b', 'Accept: text/event-stream'], body: '' })
  const strange = ['\r', '\n', ' ', '\t', ':', ',', '0', 'P', '\0', '\x7f', '\x80', '%', '?', '#', '"']
  const changed = [post, get].flatMap((plain) =>
    [...plain].flatMap((byte, at) =>
      ['', byte + byte, ...strange].map((other) => plain.slice(0, at) + other + plain.slice(at + 1)),
    ),
  )
  const accepted = [...new Set(changed)].flatMap((text) => {
    const whole = read(text)
    return whole === undefined ? [] : [{ text, whole }]
  })
  assert.ok(accepted.length > 200, `only ${accepted.length} were read at all`)
  const readings = await nodesReadings(accepted.map(({ text }) => text))
  for (const [index, { text, whole }] of accepted.entries()) {
    const ours = {
      method: whole.method,
      url: whole.target,
      headers: Object.fromEntries(whole.headers),
      body: Buffer.from(whole.body).toString('latin1'),
    }
    assert.deepEqual(JSON.parse(readings[index] || 'null'), ours, JSON.stringify(text))
  }
})
