import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'vitest'
import { HeadReader } from '../../../../src/http/server/fast-path/read-head.ts'
import { createNumbers } from '../../../support/random.ts'

/** Sends the same requests again. */
const seed = Number(process.env.FUZZ_SEED ?? 1)
const requestCount = 6_000
/** How many are sent to Node at a time. */
const atOnce = 50

type Numbers = () => number

const pick = <Item>(items: readonly Item[], numbers: Numbers): Item =>
  items[Math.floor(numbers() * items.length)]!

const names = [
  'Accept',
  'Authorization',
  'Content-Type',
  'User-Agent',
  'X-Request-Id',
  'X-A',
  'Cookie',
  'TE',
  'Via',
]
const values = [
  '*/*',
  'Bearer abc',
  'application/json',
  'a, b;q=0.5',
  '',
  ' \t spaces \t',
  '"quoted"',
  'a:b',
  '%0d%0a',
]
const targets = ['/v1/jobs', '/v1/jobs?x=1&y=%20', '/v1/jobs/claim', '/', '/a//b/../c', '/~!$&()*+,;=:@']
const bodies = ['', '{}', '{"kind":"mail"}', '\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n', '\xe9\x00\xff']
const strange = [
  '',
  '\r',
  '\n',
  '\r\n',
  ' ',
  '\t',
  ':',
  ',',
  ';',
  '0',
  '+',
  '\0',
  '\x7f',
  '\x80',
  '%',
  '?',
  '#',
  '"',
]

/** A request as a program might write it: mostly plain, and one in five with a byte that is not. */
function requestOf(numbers: Numbers): string {
  const isPost = numbers() < 0.8
  const body = isPost ? pick(bodies, numbers) : ''
  const headers = ['Host: here']
  for (const name of names.filter(() => numbers() < 0.3)) {
    const written = numbers() < 0.5 ? name : name.toLowerCase()
    headers.push(`${written}:${pick(['', ' ', '  '], numbers)}${pick(values, numbers)}`)
  }
  if (!isPost) headers.splice(1, headers.length, 'Accept: text/event-stream')
  if (isPost) headers.push(`Content-Length: ${body.length}`)
  if (numbers() < 0.2) headers.push(`Connection: ${pick(['keep-alive', 'Keep-Alive', 'close'], numbers)}`)
  const line = `${isPost ? 'POST' : 'GET'} ${isPost ? pick(targets, numbers) : '/v1/events'} HTTP/1.1`
  const plain = `${[line, ...headers].join('\r\n')}\r\n\r\n${body}`
  if (numbers() < 0.8) return plain
  const at = Math.floor(numbers() * plain.length)
  return plain.slice(0, at) + pick(strange, numbers) + plain.slice(at + 1)
}

/** What Node's parser reads in each request; '' where it reads none. */
async function nodesReadings(requests: readonly string[]): Promise<readonly string[]> {
  await using server = createServer({ requireHostHeader: false }, async (incoming, response) => {
    const { method, url, headers } = incoming
    const body = await text(incoming.setEncoding('latin1'))
    response.writeHead(200, { connection: 'close' }).end(JSON.stringify({ method, url, headers, body }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const ask = async (request: string) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    socket.write(Buffer.from(request, 'latin1'))
    const answer = await text(socket).catch(() => '')
    return answer.match(/\{.*\}/s)?.[0] ?? ''
  }
  const readings: string[] = []
  for (let at = 0; at < requests.length; at += atOnce)
    readings.push(...(await Promise.all(requests.slice(at, at + atOnce).map(ask))))
  return readings
}

test('whatever the fast path reads, the parser of Node reads the same', { timeout: 120_000 }, async () => {
  const numbers = createNumbers(seed)
  const reader = new HeadReader({ maxHeaderBytes: 16_384, isStream: (path) => path === '/v1/events' })
  const requests = Array.from({ length: requestCount }, () => requestOf(numbers))
  const accepted = requests.flatMap((request) => {
    const whole = reader.read(Buffer.from(request, 'latin1'))
    return whole === undefined ? [] : [{ request, whole }]
  })
  console.log(`fast path: seed ${seed}, it read ${accepted.length} of ${requestCount} requests`)
  assert.ok(accepted.length > requestCount / 2, 'the fast path read most of them')
  const readings = await nodesReadings(accepted.map(({ request }) => request))
  for (const [index, { request, whole }] of accepted.entries()) {
    const ours = {
      method: whole.method,
      url: whole.target,
      headers: Object.fromEntries(whole.headers),
      body: Buffer.from(whole.body).toString('latin1'),
    }
    assert.deepEqual(JSON.parse(readings[index] || 'null'), ours, `seed ${seed}: ${JSON.stringify(request)}`)
  }
})
