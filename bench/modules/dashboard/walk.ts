/** A walk through all views: what each address asks of the server, and how long every answer took. */
import type { Page, Request } from 'playwright-core'
import { within } from '../../../test/support/deadline.ts'
import { filledIds, filledNames } from './filled.ts'

/** Far more than any view takes on a slow machine. */
const restMs = 60_000

/** Every view, with what makes the store work: filters, searches, one of many; and what each must ask. */
const addresses: readonly (readonly [address: string, asks: string])[] = [
  ['/', '/v1/overview'],
  ['/queues', '/v1/queues'],
  ['/queue?name=queue-3', '/v1/queues'],
  ...[
    '',
    ...['ready', 'running', 'scheduled', 'waiting', 'completed', 'dead', 'cancelled'].map(
      (s) => `?state=${s}`,
    ),
    ...['?queue=queue-3', '?kind=kind-3', '?state=completed&queue=queue-3', '?state=dead&kind=kind-0'],
    // Few have these, and none but the oldest have those.
    ...[filledNames.rareQueue, filledNames.oldQueue].map((name) => `?queue=${name}`),
    ...[filledNames.rareKind, filledNames.oldKind].map((name) => `?kind=${name}`),
    ...[`?search=${filledIds.ended}`, '?search=payload.to:unknown@example.com'],
  ].map((query) => [`/jobs${query}`, '/v1/jobs'] as const),
  ...Object.values(filledIds).map((id) => [`/job?id=${id}`, `/v1/jobs/${id}`] as const),
  ['/schedules', '/v1/schedules'],
  ['/locks', '/v1/locks'],
  ['/once', '/v1/once'],
  ['/monitor?part=venues', '/v1/monitor/subjects'],
  ...['decisions', 'notifications', 'subscriptions', 'silences'].map(
    (part) => [`/monitor?part=${part}`, `/v1/monitor/${part}`] as const,
  ),
  ['/nodes', '/v1/nodes'],
  ...['', '?status=waiting', '?status=completed', '?status=failed'].map(
    (query) => [`/tasks${query}`, '/v1/tasks'] as const,
  ),
  ['/contention', '/v1/contention'],
  ['/audit', '/v1/audit'],
  ['/settings', '/v1/tokens'],
]

/** What a page asks from now on. */
export interface Asked {
  /** The slowest answer to each question, in milliseconds, by the question. */
  readonly slowest: ReadonlyMap<string, number>
  readonly underWay: ReadonlySet<Request>
}

export function listen(page: Page): Asked {
  const slowest = new Map<string, number>()
  const underWay = new Set<Request>()
  page.on('request', (request) => {
    if (!isStream(request)) underWay.add(request)
  })
  const ended = (request: Request) => {
    underWay.delete(request)
    if (isStream(request) || !new URL(request.url()).pathname.startsWith('/v1/')) return
    const { requestStart, responseStart } = request.timing()
    if (responseStart < 0) return
    const name = `${request.method()} ${questionOf(request.url())}`
    slowest.set(name, Math.max(slowest.get(name) ?? 0, responseStart - requestStart))
  }
  page.on('requestfinished', ended)
  // An answer that was read to its end and then let go counts as failed, too; what the server took for it is known.
  page.on('requestfailed', ended)
  return { slowest, underWay }
}

/** Looks at every view, each until it has come to rest. */
export async function walk(page: Page, url: string, { underWay }: Asked): Promise<void> {
  for (const [address, asks] of addresses) {
    const answered = page.waitForResponse((response) => new URL(response.url()).pathname === asks)
    await Promise.all([answered, page.goto(url + address)])
    await within(restMs, `the answers to ${address}`, untilRest(page, underWay))
  }
}

/** The stream of events never ends, and is no question. */
function isStream(request: Request): boolean {
  return new URL(request.url()).pathname.endsWith('/events')
}

/** Nothing is under way, and nothing has been for as long as a script needs to come to its next question. */
async function untilRest(page: Page, underWay: ReadonlySet<Request>): Promise<void> {
  for (let quiet = 0; quiet < 10; ) {
    await page.waitForTimeout(50)
    quiet = underWay.size === 0 ? quiet + 1 : 0
  }
}

/** The path with the names of what it is asked with: ids and values are not what a question is known by. */
function questionOf(url: string): string {
  const { pathname, searchParams } = new URL(url)
  const path = Object.values(filledIds).reduce((text, id) => text.replace(id, '{id}'), pathname)
  const named = ['state', 'status', 'queue', 'kind', 'search'].filter((name) => searchParams.has(name))
  const asked = named.map((name) => (name.startsWith('stat') ? `${name}=${searchParams.get(name)}` : name))
  return (
    decodeURIComponent(path).replace('queue-3', '{name}') + (asked.length > 0 ? `?${asked.join('&')}` : '')
  )
}
