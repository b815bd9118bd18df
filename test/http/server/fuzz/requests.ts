import type { Route } from '../../../../src/http/contract/index.ts'

/**
 * Malformed requests. Each is made from a route of the table and a stream of numbers, so that a seed gives the same
 * requests everywhere. `whole`: the bytes are one well-framed request, which must be answered.
 */
export interface FuzzedRequest {
  readonly bytes: Buffer
  readonly framing: 'whole' | 'broken' | 'abandoned'
  /** How it was made, for the report of a failure. */
  readonly how: string
}

export type Numbers = () => number

const values: readonly string[] = [
  'null',
  'true',
  '-1',
  '0',
  '1.5',
  '1e999',
  '-1e999',
  '9007199254740993',
  '""',
  '"x"',
  '"\\u0000"',
  '"\\ud800"',
  '"__proto__"',
  '"constructor"',
  '"\'; DROP TABLE job_queue; --"',
  '"../../etc/passwd"',
  '"\\u202e\\u001b[31m"',
  '"30s"',
  '"-30s"',
  '"1e9d"',
  '[]',
  '{}',
  '[[[[[[[[]]]]]]]]',
  '{"__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"\\u005f_proto__":1}',
  '{"$gt":""}',
  '[null]',
  '[{}]',
  `"${'é'.repeat(192)}"`,
  `"${'x'.repeat(5_000)}"`,
]

const fields: readonly string[] = [
  'kind',
  'payload',
  'queue',
  'queues',
  'kinds',
  'priority',
  'uniqueKey',
  'runAt',
  'delayMs',
  'maxAttempts',
  'backoff',
  'timeoutMs',
  'workerId',
  'limit',
  'leaseMs',
  'waitMs',
  'token',
  'result',
  'error',
  'retryInMs',
  'dead',
  'handBack',
  'ranMs',
  'items',
  'olderThanMs',
  'name',
  'scope',
  'namespace',
  'expiresInMs',
  'tx',
  '__proto__',
  'constructor',
  'toString',
  '',
  '\\u0000',
]

const names: readonly string[] = [
  'x',
  '%00',
  '%zz',
  '%',
  '..',
  '%2e%2e%2f',
  '%ff%fe',
  encodeURIComponent('é\u202e'),
  'constructor',
  '__proto__',
  "'%20OR%201=1--",
  'a'.repeat(300),
  '%F0%9F%98%80',
  '*',
  '{id}',
  ';',
  '%0d%0aX:y',
]

/** The next request for a route of the table. */
export function fuzz(route: Route, port: number, numbers: Numbers): FuzzedRequest {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(numbers() * list.length)]!
  const chance = (share: number): boolean => numbers() < share
  const how: string[] = [route.id]
  const note = <T>(what: string, value: T): T => {
    how.push(what)
    return value
  }

  const method = chance(0.05)
    ? note('method', pick(['PUT', 'PATCH', 'TRACE', 'OPTIONS', 'HEAD', 'get', 'QUERY', 'DELETE']))
    : route.method
  let path = route.path.replaceAll(/\{\w+\}/g, () => (chance(0.7) ? pick(names) : '0'))
  if (chance(0.05)) path = note('path', `${path}/${pick(names)}`)
  if (chance(0.03)) path = note('case', path.toUpperCase())
  if (chance(0.03)) path = note('slashes', path.replaceAll('/', '//'))
  if (chance(0.2))
    path += note(
      'query',
      `?${pick(fields)}=${pick(names)}&${pick(['limit', 'limit', 'cursor'])}=${pick(['1e9', '-1', 'NaN', '', '0', '501', '%00'])}`,
    )

  const headers: string[] = []
  headers.push(
    chance(0.03)
      ? note('host', `Host: ${pick(['evil.example', '', 'localhost', '[::1'])}`)
      : `Host: 127.0.0.1:${port}`,
  )
  if (chance(0.1))
    headers.push(note('key', `Idempotency-Key: ${pick(['k1', 'k2', 'k3', '', 'é', 'x'.repeat(300), 'a b'])}`))
  if (chance(0.05))
    headers.push(
      note('namespace', `Signalbox-Namespace: ${pick(['other', '', '*', 'é', '../x', 'x'.repeat(200)])}`),
    )
  if (chance(0.05))
    headers.push(
      note(
        'bearer',
        `Authorization: ${pick(['Bearer', 'Bearer x', 'Basic eDp5', `Bearer sbx_${'a'.repeat(9_000)}`, 'Bearer sbx_a_b'])}`,
      ),
    )
  if (chance(0.03))
    headers.push(
      note(
        'site',
        pick([
          'Sec-Fetch-Site: cross-site',
          'Origin: http://evil.example',
          'Origin: null',
          'Sec-Fetch-Site: ?',
        ]),
      ),
    )
  if (chance(0.03))
    headers.push(note('last', `Last-Event-ID: ${pick(['-1', 'NaN', '9'.repeat(400), '\u0001', '1;2'])}`))
  if (chance(0.02))
    headers.push(note('encoding', `Content-Encoding: ${pick(['gzip', 'br', 'deflate, gzip'])}`))
  if (chance(0.02)) headers.push(note('accept', `Accept: ${pick(['image/png', '*/*', 'text/html;q=x'])}`))

  const takesBody = route.method !== 'GET' || chance(0.05)
  const body = takesBody ? note('body', fuzzBody(pick, chance)) : Buffer.alloc(0)
  if (body.length > 0 || chance(0.1)) {
    const type = chance(0.06)
      ? note(
          'type',
          pick([
            'text/plain',
            'application/x-www-form-urlencoded',
            'application/json; charset=utf-16',
            '',
            'multipart/form-data',
          ]),
        )
      : 'application/json'
    headers.push(`Content-Type: ${type}`)
  }

  if (chance(0.02)) {
    return {
      bytes: abandoned(method, path, headers, body, numbers),
      framing: 'abandoned',
      how: how.join(' '),
    }
  }
  if (chance(0.03)) {
    const broken = pick([
      `${method} ${path} HTTP/1.1\r\n${headers.join('\r\n')}\r\nContent-Length: -5\r\n\r\n`,
      `${method} ${path} HTTP/9.9\r\n${headers.join('\r\n')}\r\n\r\n`,
      `${method} ${path}\r\n\r\n`,
      `${method} ${path} HTTP/1.1\r\n${headers.join('\r\n')}\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz\r\n`,
      `${method} ${path} HTTP/1.1\r\n${headers.join('\r\n')}\r\nbad header\r\n\r\n`,
      '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003\r\n\r\n',
    ])
    return { bytes: Buffer.from(broken, 'latin1'), framing: 'broken', how: note('framing', how).join(' ') }
  }
  const isChunked = body.length > 0 && chance(0.1)
  headers.push(isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`)
  const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`, 'latin1')
  const sent = isChunked
    ? Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')])
    : body
  return { bytes: Buffer.concat([head, sent]), framing: 'whole', how: how.join(' ') }
}

function fuzzBody(pick: <T>(list: readonly T[]) => T, chance: (share: number) => boolean): Buffer {
  if (chance(0.03)) return Buffer.from([0x7b, 0xff, 0xfe, 0x80, 0x7d])
  if (chance(0.02)) return Buffer.from('['.repeat(100_000))
  if (chance(0.02)) return Buffer.from(`{"kind":"x","payload":${'{"a":'.repeat(60)}1${'}'.repeat(60)}}`)
  if (chance(0.01)) return Buffer.from(`{${Array.from({ length: 10_050 }, (_, n) => `"k${n}":1`).join(',')}}`)
  if (chance(0.01)) return Buffer.from(`{"kind":"x","payload":${'1'.repeat(300_000)}}`)
  if (chance(0.03)) return Buffer.from(pick(values))
  if (chance(0.05)) return Buffer.from('{"kind": "x", ')
  const pairs = Array.from({ length: 1 + (chance(0.5) ? 1 : 4) }, () => `"${pick(fields)}":${pick(values)}`)
  if (chance(0.5)) pairs.unshift('"kind":"x"', '"token":"1-a"')
  // A claim that may wait would only hold up the next request.
  const object = `{${pairs.join(',')}}`.replaceAll('"waitMs":"30s"', '"waitMs":"5ms"')
  return Buffer.from(chance(0.15) ? `[${object},${object}]` : object)
}

/** The head alone, or a part of the body, and then nothing more. */
function abandoned(
  method: string,
  path: string,
  headers: readonly string[],
  body: Buffer,
  numbers: Numbers,
): Buffer {
  const whole = Buffer.concat([
    Buffer.from(
      `${method} ${path} HTTP/1.1\r\n${headers.join('\r\n')}\r\nContent-Length: ${body.length + 10}\r\n\r\n`,
      'latin1',
    ),
    body,
  ])
  return whole.subarray(0, Math.max(1, Math.floor(numbers() * whole.length)))
}
