import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { fits, type JsonSchema } from './schema-values.ts'

/**
 * A client that knows nothing but a server's `/openapi.json`. It sends what an operation describes, and holds every
 * answer against the description: its status, its media type, its body.
 */
export interface ApiDriver extends Disposable {
  readonly operations: readonly Operation[]
  operation(id: string): Operation
  /** Sends it, checks the answer against the description, and gives it back. */
  call(operation: Operation, request?: ApiRequest): Promise<ApiAnswer>
  /** How many answers were checked. */
  readonly answerCount: number
}

export interface Operation {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly parameters: readonly Parameter[]
  readonly body: { readonly schema: JsonSchema; readonly required: boolean } | undefined
  readonly responses: Readonly<Record<string, { readonly content: Readonly<Record<string, Content>> }>>
  readonly isStream: boolean
}

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly schema: JsonSchema
}

interface Content {
  readonly schema: JsonSchema
  readonly 'x-events'?: Readonly<Record<string, { readonly data: JsonSchema }>>
}

export interface ApiRequest {
  /** By name, wherever they belong. */
  readonly parameters?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  /** Sent as it is, instead of `body`. */
  readonly rawBody?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly rawQuery?: string
}

export interface ApiAnswer {
  readonly status: number
  readonly type: string
  // biome-ignore lint/suspicious/noExplicitAny: what a test reads from it is what it tests.
  readonly body: any
}

export async function openDriver(url: string, headers: Readonly<Record<string, string>>): Promise<ApiDriver> {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document
  const operations = operationsOf(document)
  const agent = new Agent({ keepAlive: true, maxSockets: 32 })
  const { hostname, port } = new URL(url)
  let answerCount = 0

  return {
    operations,
    operation(id) {
      const found = operations.find((one) => one.id === id)
      assert.ok(found, `the description has ${id}`)
      return found
    },
    async call(operation, asked = {}) {
      const wire = encode(operation, asked)
      const answer = await send({ hostname, port, agent, ...wire, headers: { ...headers, ...wire.headers } })
      answerCount++
      check(operation, answer, asked)
      return answer
    },
    get answerCount() {
      return answerCount
    },
    [Symbol.dispose]() {
      agent.destroy()
    },
  }
}

interface Document {
  readonly paths: Record<string, Record<string, Record<string, unknown>>>
}

/** The operations, with every reference replaced by what it refers to. */
function operationsOf(document: Document): readonly Operation[] {
  const resolve = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(resolve)
    if (typeof part !== 'object' || part === null) return part
    if ('$ref' in part && typeof part.$ref === 'string') {
      const steps = part.$ref.slice(2).split('/')
      return resolve(
        steps.reduce<unknown>((place, step) => (place as Record<string, unknown>)[step], document),
      )
    }
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, resolve(value)]))
  }
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => {
      const { operationId, parameters, requestBody, responses } = resolve(described) as {
        operationId: string
        parameters?: Parameter[]
        requestBody?: { required: boolean; content: Record<string, Content> }
        responses: Operation['responses']
      }
      const schema = requestBody?.content['application/json']?.schema
      return {
        id: operationId,
        method: method.toUpperCase(),
        path,
        parameters: parameters ?? [],
        body: schema && { schema, required: requestBody!.required },
        responses,
        isStream: Object.values(responses).some(({ content }) => 'text/event-stream' in content),
      }
    }),
  )
}

const streamMs = 300

interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

function encode(
  operation: Operation,
  { parameters = {}, body, rawBody, headers = {}, rawQuery }: ApiRequest,
): Sent {
  const valuesIn = (place: Parameter['in']) =>
    operation.parameters.flatMap(({ name, in: where }) =>
      where === place && parameters[name] !== undefined ? [[name, String(parameters[name])] as const] : [],
    )
  let path = operation.path
  for (const [name, value] of valuesIn('path')) path = path.replace(`{${name}}`, encodeSegment(value))
  const query =
    rawQuery ??
    valuesIn('query')
      .map((pair) => pair.map(encodeURIComponent).join('='))
      .join('&')
  const text = rawBody ?? (body === undefined ? undefined : JSON.stringify(body))
  return {
    method: operation.method,
    path: query === '' ? path : `${path}?${query}`,
    headers: {
      // The length by hand: Node says none for a DELETE, and then its body is the beginning of another request.
      ...(text !== undefined && {
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(text)),
      }),
      ...Object.fromEntries(valuesIn('header')),
      ...headers,
    },
    body: text,
  }
}

/** `.` and `..` would be steps on the way instead of names. */
function encodeSegment(value: string): string {
  return encodeURIComponent(value).replaceAll('.', '%2E')
}

/** By hand, for `fetch` would tidy the path. A stream is read up to its first event, should one come. */
function send(options: Sent & { hostname: string; port: string; agent: Agent }): Promise<ApiAnswer> {
  const { body, ...rest } = options
  return new Promise((resolve, reject) => {
    const asked = request({ ...rest, timeout: 10_000 }, (reply) => {
      const type = (reply.headers['content-type'] ?? '').split(';', 1)[0]!
      const status = reply.statusCode!
      let text = ''
      const finish = () => resolve({ status, type, body: /json$/.test(type) ? JSON.parse(text) : text })
      reply.setEncoding('utf8')
      const isStream = type === 'text/event-stream'
      const leave = () => {
        finish()
        reply.destroy()
      }
      // A stream that is resumed at its end has nothing to send.
      if (isStream) setTimeout(leave, streamMs)
      reply.on('data', (chunk: string) => {
        text += chunk
        if (isStream && /^data: .*\n\n/m.test(text)) leave()
      })
      reply.on('end', finish)
      reply.on('error', reject)
    })
    asked.on('timeout', () =>
      asked.destroy(new Error(`${rest.method} ${rest.path} was not answered in 10 s`)),
    )
    asked.on('error', reject)
    asked.end(body)
  })
}

/** Holds an answer against what is described. */
function check(operation: Operation, answer: ApiAnswer, asked: ApiRequest): void {
  const { status, type, body } = answer
  const what = () =>
    `${operation.id} ${JSON.stringify(asked).slice(0, 600)} -> ${status} ${JSON.stringify(body).slice(0, 600)}`
  const described = operation.responses[status]
  assert.ok(described, `the status is described: ${what()}`)
  const content = described.content[type]
  assert.ok(content, `the type ${type} is described: ${what()}`)
  assert.ok(fits(content.schema, body), `the body is as described: ${what()}`)
  if (type === 'application/problem+json') assert.equal(body.type, `urn:signalbox:error:${body.code}`, what())
  if (type === 'text/event-stream') checkEvents(content, body, what)
}

function checkEvents(content: Content, text: string, what: () => string): void {
  for (const block of text.split('\n\n')) {
    const data = /^data: (.*)$/m.exec(block)?.[1]
    if (data === undefined) continue
    const event = content['x-events']?.[/^event: (.*)$/m.exec(block)?.[1] ?? 'message']
    assert.ok(event, `the event is described: ${what()}`)
    assert.ok(fits(event.data, JSON.parse(data)), `its data is as described: ${what()}`)
  }
}
