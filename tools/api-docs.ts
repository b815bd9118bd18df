/**
 * `npm run docs`: writes docs/api.md from the table of routes. test/house/api-docs.test.ts fails while the page and the
 * table differ.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ErrorCode, errorCodes } from '../src/core/errors.ts'
import { modules } from '../src/http/contract/openapi.ts'
import {
  type Components,
  createComponents,
  type JsonSchema,
  streamEventsOf,
} from '../src/http/contract/openapi-schemas.ts'
import { commonProblems, problemsOf, takesIdempotencyKey } from '../src/http/contract/problem.ts'
import { bodyLimits, maxBodyDepth, pathParams, type Route } from '../src/http/contract/route.ts'
import { routes } from '../src/http/contract/routes.ts'
import { printCurl } from './api-examples.ts'

/** The page, from the routes. */
export function printApi(table: readonly Route[]): string {
  const components = createComponents()
  const parts = [
    introduction,
    printIndex(table),
    ...(Object.keys(modules) as Route['module'][]).map((module) => printModule(module, table, components)),
    printCommonProblems(table),
    printObjects(table, components),
  ]
  return `${parts.filter(Boolean).join('\n\n')}\n`
}

const introduction = `# HTTP API

<!-- Written by \`npm run docs\` from the table of routes in src/http/contract. Change the table, not this page. -->

How to read this page: every route has its method and path, the scope a token needs for it, its fields with their types
and limits, its answer, and its problem codes. A field of a request is optional unless it says
**required**; a field of an answer is always there unless it says otherwise. The same as an OpenAPI 3.1 document, for programs: \`GET /openapi.json\`.

- **Where.** The examples speak to a server on this machine, \`npm start\`. It asks for no token as long as it has none and
  listens on a loopback address; otherwise every request but \`/livez\`, \`/readyz\` and \`/openapi.json\` carries
  \`Authorization: Bearer …\`. A scope includes those before it: \`read\`, \`work\`, \`admin\`.
- **Namespace.** A token belongs to one. A token of \`*\`, or a loopback client without a token, may name any, with
  the header \`Signalbox-Namespace\`, percent-encoded; without it, \`default\`.
- **Bodies** are JSON with \`Content-Type: application/json\`: at most ${count(bodyLimits.maxBytes)} bytes, ${count(bodyLimits.maxKeys)} keys and ${maxBodyDepth} levels
  unless a route says otherwise. Unknown fields and parameters are refused.
- **Instants** are epoch milliseconds. A **span** is a whole number of milliseconds, or text: \`250ms\`, \`30s\`, \`1.5m\`, \`24h\`,
  \`7d\`. A **name** is text of 1 to 191 characters without control characters.
- **Lists** come as \`{ items, cursor }\`. Hand the cursor in again for the next page; it is null at the end.
- **Problems** are \`application/problem+json\` (RFC 9457): \`{ type, title, status, code, detail }\`, and \`details\` with the place where something that was sent is wrong (\`option\`, of a search \`column\`). Compare \`code\`: it is
  stable, and [errors.md](errors.md) says what each means. With \`429\` comes \`Retry-After\`.
- **Sending again.** Where \`Idempotency-Key\` is taken, a request with the same key, from the same caller and with the same
  path and body, is done once, and answered with its first outcome for 24 hours. 2xx means done and durable, 4xx means
  nothing was done, 5xx and a cut connection mean that it is not known: send it again with its key.
- Every answer has an \`X-Request-Id\`, which is also in the server's log: the one you sent, or a new one.`

function printIndex(table: readonly Route[]): string {
  const rows = table.map(
    (route) =>
      `| [\`${route.method} ${route.path}\`](#${anchorOf(route)}) | ${route.scope} | ${cell(route.summary)} |`,
  )
  return ['## All routes', '', '| Route | Scope | |', '|---|---|---|', ...rows].join('\n')
}

function printModule(module: Route['module'], table: readonly Route[], components: Components): string {
  const own = table.filter((route) => route.module === module)
  if (own.length === 0) return ''
  return [`## Module: ${module}`, modules[module], ...own.map((route) => printRoute(route, components))].join(
    '\n\n',
  )
}

function headingOf({ method, path }: Route): string {
  return `${method} ${path}`
}

/** As Markdown renderers make it of the heading. */
function anchorOf(route: Route): string {
  return headingOf(route)
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')
}

function printRoute(route: Route, components: Components): string {
  const { maxBytes, maxKeys } = route.limits ?? bodyLimits
  const facts = [
    `Scope: ${route.scope === 'none' ? 'none, open to every client of the port' : `\`${route.scope}\``}.`,
    takesIdempotencyKey(route) && 'Takes an `Idempotency-Key`.',
    route.bodyOptional && 'The body may be left out.',
    route.limits && `Its body has at most ${count(maxBytes)} bytes and ${count(maxKeys)} keys.`,
  ]
  const parts = [
    `### ${headingOf(route)}`,
    route.summary,
    route.description,
    facts.filter(Boolean).join(' '),
    printFields('Path', pathParams(route), components),
    printFields('Query', route.query, components),
    printBody(route, components),
    printReplies(route, components),
    printEvents(route, components),
    printProblems(route),
    ['```sh', printCurl(route), '```'].join('\n'),
  ]
  return parts.filter(Boolean).join('\n\n')
}

function printFields(title: string, schema: Route['body'], components: Components): string {
  if (schema === undefined) return ''
  return printTable(title, components.show(schema))
}

function printBody(route: Route, components: Components): string {
  if (route.body === undefined) return ''
  const shown = components.show(route.body)
  return isObject(shown) ? printTable('Body', shown) : `Body: ${typeOf(shown)}.`
}

function isObject(schema: JsonSchema): boolean {
  return schema.type === 'object' && typeof schema.properties === 'object'
}

/** What is taken in is strict and says what it needs; what is given out has every field unless it says otherwise. */
function printTable(title: string, schema: JsonSchema): string {
  const { properties = {}, required = [], additionalProperties } = schema as ObjectParts
  const isTakenIn = additionalProperties === false
  const rows = Object.entries(properties).map(([name, field]) => {
    const isRequired = required.includes(name)
    const mark = isTakenIn === isRequired ? (isTakenIn ? ' **required**' : ', may be missing') : ''
    return `| \`${name}\` | ${cell(typeOf(field))}${mark} |`
  })
  return [`| ${title} | |`, '|---|---|', ...rows].join('\n')
}

interface ObjectParts {
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean
}

function printReplies(route: Route, components: Components): string {
  const lines = Object.entries(route.replies).map(([status, schema]) => {
    if (route.replyType === 'text') return `- \`${status}\` \`text/plain\``
    if (route.replyType === 'events') return `- \`${status}\` \`text/event-stream\``
    return `- \`${status}\` ${typeOf(components.show(schema))}`
  })
  return ['Answers:', '', ...lines].join('\n')
}

function printEvents(route: Route, components: Components): string {
  const events = streamEventsOf(route)
  if (events === undefined) return ''
  const rows = Object.entries(events).map(
    ([type, { description, data }]) =>
      `| \`${type}\` | ${cell(typeOf(components.show(data)))} | ${cell(description)} |`,
  )
  return ['| Event | Data | |', '|---|---|---|', ...rows].join('\n')
}

function printProblems({ problems = [] }: Route): string {
  const own = problems.map(withStatus).join(', ')
  return `Problems: ${own === '' ? '' : `${own}, and `}[those of every route](#problems-of-every-route).`
}

function printCommonProblems(table: readonly Route[]): string {
  const lines = commonProblems
    .filter(({ concern }) => table.some(concern))
    .map(({ whose, codes }) => `- Every route${whose && ` ${whose}`}: ${codes.map(withStatus).join(', ')}.`)
  return ['## Problems of every route', '', ...lines].join('\n')
}

function withStatus(problem: ErrorCode): string {
  return `${errorCodes[problem].status} \`${problem}\``
}

/** What the routes refer to, and every code. */
function printObjects(table: readonly Route[], components: Components): string {
  const objects = Object.entries(components.used()).map(([name, schema]) => {
    const body = isObject(schema) ? printTable('Field', schema) : `${typeOf(schema)}.`
    return `### ${name}\n\n${body}`
  })
  const codes = (Object.keys(errorCodes) as ErrorCode[])
    .filter((code) => table.some((route) => problemsOf(route).includes(code)))
    .map((code) => `| \`${code}\` | ${errorCodes[code].status} | ${cell(errorCodes[code].meaning)} |`)
  return [
    '## Objects',
    ...objects,
    ['## Codes of problems', '', '| Code | Status | Meaning |', '|---|---|---|', ...codes].join('\n'),
  ].join('\n\n')
}

/** A schema in words. */
function typeOf(schema: JsonSchema): string {
  const { $ref, type, anyOf, items, properties } = schema as {
    $ref?: string
    type?: string
    anyOf?: readonly JsonSchema[]
    items?: JsonSchema
    properties?: Record<string, JsonSchema>
  }
  if ($ref !== undefined) {
    const name = $ref.slice($ref.lastIndexOf('/') + 1)
    return `[${name}](#${name.toLowerCase()})`
  }
  if ('enum' in schema) return `one of ${(schema.enum as readonly string[]).map(code).join(', ')}`
  if ('const' in schema) return code(String(schema.const))
  if (anyOf !== undefined) return choicesOf(anyOf).join(' or ')
  switch (type) {
    case 'array':
      return `list${range(schema.minItems, schema.maxItems, ', ', ' items,')} of ${typeOf(items!)}`
    case 'object':
      if (schema.maxProperties === 0) return '`{}`'
      return `\`{ ${Object.keys(properties ?? {}).join(', ')} }\`${detailsOf(properties)}`
    case 'string':
      return textOf(schema)
    case 'integer':
    case 'number':
      return numberOf(schema)
    case 'null':
      return 'null'
    case undefined:
      return 'any JSON value'
    default:
      return type
  }
}

/** Objects that have no name of their own are written out. */
function detailsOf(properties: Record<string, JsonSchema> | undefined): string {
  const parts = Object.entries(properties ?? {}).map(([name, field]) => `\`${name}\` ${typeOf(field)}`)
  return parts.length === 0 ? '' : `, with ${parts.join('; ')}`
}

const namePattern = '^[^\\u0000-\\u001f\\u007f-\\u009f]*$'

function textOf({ minLength, maxLength, pattern }: JsonSchema): string {
  if (pattern === namePattern && minLength === 1 && maxLength === 191) return 'name'
  return `text${range(minLength, maxLength, ' of ', ' characters')}`
}

function numberOf({ type, minimum, maximum, default: standard }: JsonSchema): string {
  const normally = standard === undefined ? '' : `, ${count(standard as number)} unless given`
  if (maximum === 8_640_000_000_000_000) return `instant${normally}`
  return `${type === 'integer' ? 'whole number' : 'number'}${range(minimum, maximum, ' ', '')}${normally}`
}

/** A number or its text, of which a span is made, reads as one. */
function choicesOf(choices: readonly JsonSchema[]): readonly string[] {
  const asText = choices.find(({ pattern }) => String(pattern).includes('ms|s|m|h|d'))
  const asNumber = choices.find(({ type }) => type === 'integer')
  if (asText === undefined || asNumber === undefined) return choices.map(typeOf)
  const rest = choices.filter((choice) => choice !== asText && choice !== asNumber)
  const { minimum = 0 } = asNumber as { minimum?: number }
  return [minimum === 0 ? 'span' : `span of ${count(minimum)} ms or more`, ...rest.map(typeOf)]
}

function range(min: unknown, max: unknown, before: string, after: string): string {
  if (min === undefined && max === undefined) return ''
  if (max === undefined) return `${before}${count(min as number)} or more${after}`
  if (min === undefined) return `${before}at most ${count(max as number)}${after}`
  return `${before}${count(min as number)} to ${count(max as number)}${after}`
}

function count(number: number): string {
  return number.toLocaleString('en-US')
}

function code(text: string): string {
  return `\`${text}\``
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}

if (import.meta.main) {
  writeFileSync(join(import.meta.dirname, '..', 'docs', 'api.md'), printApi(routes))
  console.log(`docs/api.md: ${routes.length} routes`)
}
