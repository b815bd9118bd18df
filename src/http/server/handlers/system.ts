import { everyNamespace, type ListedToken, type Token, type Tokens } from '../../../access/index.ts'
import type { Contention } from '../../../contention/index.ts'
import type { Duration } from '../../../core/duration.ts'
import { invalidArgument, SignalboxError } from '../../../core/errors.ts'
import { show, text } from '../../../core/options.ts'
import { version } from '../../../core/version.ts'
import { readScaling, readSeries } from '../../../fleet/index.ts'
import { describeApi, livez, openapi, type Route, readyz, routes } from '../../contract/index.ts'
import type { Handler, Handlers, Principal, SomeHandlers } from '../call.ts'
import { scalingPartsOf } from '../metrics/fleet-families.ts'
import type { Health } from '../metrics/health.ts'
import { metricsType } from '../metrics/metric-registry.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Overviews } from '../metrics/overview.ts'
import { createHintsFeed } from '../streams/watch-feeds.ts'

/** The services behind health, metrics and the description of the API. */
export interface SystemParts {
  readonly health: Health
  readonly metrics: Pick<Metrics, 'text'>
  /** The server's address in the description; `/` means the address of the description itself. @default '/' */
  readonly url?: string
}

export function systemHandlers({ health, metrics, url = '/' }: SystemParts): SomeHandlers {
  let description: string | undefined

  return {
    livez: async () => ({ body: health.live() }),

    async readyz() {
      const body = await health.ready()
      return { status: body.status === 'ready' ? 200 : 503, body }
    },

    metrics: async ({ principal, space }) => ({
      text: await metrics.text({ space, everyNamespace: principal.everyNamespace }),
      type: metricsType,
    }),

    async openapi() {
      // The routes do not change, so the text is created once, for the first request.
      description ??= JSON.stringify(describeApi(routes, { version, url }))
      return { text: description, type: 'application/json; charset=utf-8' }
    },
  }
}

/**
 * The answer at `/` for clients that do not accept HTML: links to the other pages. Browsers get the dashboard
 * (assets.ts). It is not part of the API, so the route table does not have it.
 */
export const rootRoute: Route = {
  id: 'root',
  method: 'GET',
  path: '/',
  scope: 'none',
  module: 'system',
  summary: 'Where to go from here.',
  replies: {},
}

const root = {
  name: 'signalbox',
  version,
  routes: Object.fromEntries([livez, readyz, openapi].map(({ path, summary }) => [path, summary])),
  note: 'The API is under /v1; /openapi.json describes every route. Browsers get the dashboard here.',
}

export const rootHandler: Handler = async () => ({ status: 200, body: root })

export function overviewHandlers(overviews: Overviews): SomeHandlers {
  return {
    whoAmI: async ({ principal }) => ({ body: overviews.me(principal) }),
    getOverview: async ({ query, space }) => ({ body: await overviews.of(space, query) }),
  }
}

export const auditHandlers: SomeHandlers = {
  async listAudit({ query, space }) {
    return { body: await space.audit.list(query) }
  },
}

export const seriesHandlers: SomeHandlers = {
  async getSeries({ query: { step, ...query }, space }) {
    return { body: await readSeries(space.stores.series, { ...query, step: spanOf(step) }) }
  },
  async getScaling({ query: { drain, ...query }, space }) {
    return { body: await readScaling(scalingPartsOf(space), { ...query, drain: spanOf(drain) }) }
  },
}

/** A query has no types, so digits alone are milliseconds. */
function spanOf(value: Duration | undefined): Duration | undefined {
  return typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
}

export function contentionHandlers(contention: Pick<Contention, 'snapshot'>): SomeHandlers {
  return {
    async getContention({ principal: { everyNamespace, namespace } }) {
      // Lock keys and the subjects of turns are user data; kinds and numbers are not.
      return { body: contention.snapshot(everyNamespace ? {} : { namespace }) }
    },
  }
}

export const eventHandlers: SomeHandlers = {
  events: async ({ space }) => ({ feed: space.queuesFeed }),
  async jobEvents({ query, space }) {
    const queues = decodeQueues(query?.queues)
    return { feed: space.feed(({ stores }) => createHintsFeed(stores.notifier, queues)) }
  },
}

/** The most queues of one claim. */
const maxQueues = 100

/** Reads the names in `a,b%2Cc`; without a name, the default queue of a claim. */
function decodeQueues(list: string | undefined): readonly string[] {
  if (list === undefined) return ['default']
  const names = list.split(',')
  if (names.length > maxQueues) {
    throw invalidArgument(`queues must name up to ${maxQueues}, not ${names.length}.`)
  }
  return [...new Set(names.map((name, nth) => text(`queues[${nth}]`, decodeName(name))))]
}

function decodeName(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw invalidArgument(`queues has a name that is not percent-encoded correctly: ${show(encoded)}.`)
  }
}

/**
 * Handlers of tokens. A token of one namespace sees, creates and revokes only tokens of that namespace. A token of
 * every namespace, or a local caller, sees all of them.
 */
export function tokenHandlers(tokens: Tokens): Handlers<'listTokens' | 'createToken' | 'revokeToken'> {
  return {
    async listTokens({ query, principal }) {
      const page = await tokens.list({
        limit: query.limit,
        cursor: query.cursor ?? undefined,
        namespace: principal.everyNamespace ? undefined : principal.namespace,
      })
      return { body: { items: page.items.map(withoutLive), cursor: page.cursor } }
    },

    async createToken({ body, principal }) {
      const { name, scope, nodes, namespace = principal.namespace, expiresInMs } = body
      if (!reaches(principal, namespace)) throw notYours(namespace)
      return { body: await tokens.create({ name, scope, nodes, namespace, expiresInMs }) }
    },

    async revokeToken({ params, principal }) {
      const token = principal.everyNamespace ? undefined : await tokens.find(params.id)
      // A token never changes its namespace, so this check still holds when the store revokes it.
      if (!principal.everyNamespace && token?.namespace !== principal.namespace)
        throw new SignalboxError('not_found', 'There is no such token in this namespace.')
      return { body: await tokens.revoke(params.id) }
    },
  }
}

function reaches(principal: Principal, namespace: string): boolean {
  return principal.everyNamespace || namespace === principal.namespace
}

function notYours(namespace: string): SignalboxError {
  const whose = namespace === everyNamespace ? 'every namespace' : 'another namespace'
  return new SignalboxError(
    'forbidden',
    `A token of one namespace cannot create one for ${whose}. Leave namespace out, or use a token of every namespace.`,
  )
}

function withoutLive({ live: _, ...token }: ListedToken): Token {
  return token
}
