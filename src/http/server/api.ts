import { includesScope, type Scope } from '../../access/index.ts'
import { invalidArgument, isSignalboxError, SignalboxError } from '../../core/errors.ts'
import {
  type BodyLimits,
  bodyLimits,
  keepsKeyWithEffect,
  mayWait,
  pathParams,
  type Route,
  routes,
  type Schema,
} from '../contract/index.ts'
import type { Assets } from './assets.ts'
import type { Answer, Authenticator, Handler, Incoming, Outgoing, Principal } from './call.ts'
import { rootRoute } from './handlers/system.ts'
import type { AuditTrail } from './log/audit-trail.ts'
import { type OperatorAct, operatorActs } from './log/audit-trail.ts'
import type { Spaces } from './namespace-services.ts'
import type { Admission } from './request/admission.ts'
import { isList, parseBody } from './request/body.ts'
import { answerOnce, fingerprintOf, readRequestKey } from './request/idempotent-response.ts'
import { asSignalboxError, replyJson, replyProblem, replyText, streamHeaders } from './request/problem.ts'
import { RequestContext } from './request/request-context.ts'
import { checkSite } from './request/site-guard.ts'
import { bodySubject, pathSubject, readQuery, validate } from './request/validate.ts'
import { createRouter, type Match } from './router.ts'

/**
 * Every adapter passes its requests through these steps:
 *
 *     match ──▶ guard ──▶ authenticate, scope ──▶ admission ──▶ body: read, scan, parse ──▶ validate ──▶ handler ──▶ reply
 *     404 405   403       401 403                  429           413 400                    400          audit
 *
 * The order is a promise: the server refuses an unauthorized caller before it reads the body, and an invalid request
 * before a handler runs.
 *
 * A request that waits for a job or for the rest of its body ends with its token: it gets 401 as soon as the token is
 * revoked or expires. Streams and sockets watch their tokens themselves. A handler that does not wait runs to its end.
 */
export interface Api {
  /** Always resolves with an answer. */
  answer(incoming: Incoming, requestId: string): Promise<Outgoing>
}

export interface ApiParts {
  readonly spaces: Spaces
  readonly authenticator: Authenticator
  readonly admission: Pick<Admission, 'enterRequest' | 'enterStream'>
  /** The handlers by route id. */
  readonly handlers: Readonly<Record<string, Handler>>
  readonly trail: AuditTrail
  /** The dashboard's files. */
  readonly assets: Assets
  /** The most bytes of an ordinary body. A list of jobs may have eight times as many, a report sixteen times. */
  readonly maxBodyBytes: number
  /** The allowed values of the Host header; undefined when the app around the server checks it. */
  hosts(): ReadonlySet<string> | undefined
  isDraining(): boolean
  isOverloaded(): boolean
  /** Called for every request. */
  readonly onBegan: () => void
  /** Called for every problem document, with the original error. */
  readonly onProblem: (error: SignalboxError, thrown: unknown, requestId: string) => void
  readonly onAnswered: (answered: Answered) => void
  readonly onStreamEnded: (route: Route, how: 'ended' | 'dropped', ms: number) => void
}

/** A request that was answered, for logs and metrics. */
export interface Answered {
  readonly requestId: string
  readonly incoming: Incoming
  readonly route: Route | undefined
  readonly principalId: string | undefined
  readonly status: number
  readonly ms: number
  /** Characters of the answer; undefined for a stream. */
  readonly bytes: number | undefined
}

/** Facts of a route that are computed once, at the start. */
interface Plan {
  readonly handler: Handler
  /** The operator's action that the audit trail records. */
  readonly act: OperatorAct | undefined
  /** The store cannot write an Idempotency-Key together with the effect: a separate guard keeps it. */
  readonly isKeyBeside: boolean
  /** The route may wait, so its requests end with their token. */
  readonly mayWait: boolean
  readonly status: number
  readonly params: Schema | undefined
  readonly limits: BodyLimits
  readonly listLimits: BodyLimits
}

/** Routes that still answer while the server shuts down. */
const alwaysOpen: ReadonlySet<string> = new Set(['livez', 'readyz', 'metrics'])

export function createApi(parts: ApiParts): Api {
  const { spaces, authenticator, admission } = parts
  const table = [...routes, rootRoute]
  const router = createRouter(table)
  const plans = new Map(table.map((route) => [route, planOf(route, parts)]))

  /** Checks a request before the caller is known. */
  function checkAllowed({ route, incoming }: RequestContext): void {
    checkSite(incoming, route, parts.hosts())
    if (parts.isDraining() && !alwaysOpen.has(route.id)) throw draining()
    if (parts.isOverloaded() && route.relieves !== true) throw overloaded()
  }

  /** Checks the caller's rights and counts the request, until the returned function is called. */
  function enter(context: RequestContext, principal: Principal, scope: Scope): () => void {
    context.principal = principal
    if (principal.nodes !== undefined && context.route.forNodes !== true) throw onlyNodes()
    if (!includesScope(principal.scope, scope)) throw scopeMissing(scope, principal.scope)
    return admission.enterRequest(principal)
  }

  /** Awaits only real promises: needless awaits would cost a tenth of a request's time. */
  async function runRequest(context: RequestContext): Promise<Outgoing> {
    const { route, incoming } = context
    checkAllowed(context)
    let leave: (() => void) | undefined
    let handling: Promise<Answer> | undefined
    if (route.scope !== 'none') {
      const asking = authenticator.authenticate(incoming)
      leave = enter(context, asking instanceof Promise ? await asking : asking, route.scope)
    }
    try {
      const plan = plans.get(route)!
      const key = readRequestKey(route, incoming)
      if (plan.params !== undefined) validate(pathSubject, plan.params, context.params)
      context.query = readQuery(incoming.query, route.query)
      const reading = readBytes(route, plan, incoming)
      const bytes = reading instanceof Promise ? await waitFor(context, () => reading) : reading
      context.body = readBody(route, plan, bytes)
      if (key !== undefined) context.key = { key, fingerprint: fingerprintOf(incoming, bytes) }
      if (!plan.mayWait) return reply(context, plan, await handle(context, plan))
      const begin = () => {
        handling = handle(context, plan)
        return handling
      }
      return reply(context, plan, await waitFor(context, begin))
    } finally {
      const over = () => {
        context.leave()
        leave?.()
      }
      // A handler whose token ended still runs to its end, so that it can return jobs that it just claimed.
      if (handling !== undefined && context.hasLostToken) void handling.then(over, over)
      else over()
    }
  }

  /** Waits until the work ends or the caller's token does. */
  async function waitFor<Value>(context: RequestContext, begin: () => Promise<Value>): Promise<Value> {
    if (context.route.scope === 'none') return begin()
    context.watchToken(authenticator)
    try {
      return await context.whileTokenLasts(begin())
    } finally {
      context.unwatchToken()
    }
  }

  function handle(context: RequestContext, plan: Plan): Promise<Answer> {
    const { key, principal } = context
    if (key === undefined || !plan.isKeyBeside) return act(context, plan)
    const { ownGuards, guards } = context.space.stores
    const whenDown = context.route.module === 'once' ? 'handle' : 'refuse'
    const request = { caller: principal.id, ...key }
    return answerOnce(ownGuards ?? guards, request, () => act(context, plan), whenDown)
  }

  function act(context: RequestContext, { act, handler }: Plan): Promise<Answer> {
    const call = context as never
    if (act === undefined || act.hasEffect?.(context.body) === false) return handler(call)
    return parts.trail.follow(act, context, () => handler(call))
  }

  function reply(context: RequestContext, plan: Plan, answer: Answer): Outgoing {
    if ('body' in answer) return replyJson(answer.status ?? plan.status, answer.body)
    if ('text' in answer) return replyText(plan.status, answer.type, answer.text)
    const { principal, incoming, route, begunAt } = context
    // A HEAD request opens no stream.
    if (incoming.method === 'HEAD') return { status: 200, headers: streamHeaders, body: '' }
    const leave = admission.enterStream(principal)
    const ended = (how: 'ended' | 'dropped') => {
      leave()
      parts.onStreamEnded(route, how, performance.now() - begunAt)
    }
    const lastEventId = incoming.header('last-event-id')
    return { status: 200, headers: streamHeaders, feed: answer.feed, lastEventId, principal, ended }
  }

  function match(incoming: Incoming): Match {
    try {
      return router.match(incoming.method, incoming.path)
    } catch (error) {
      // A page of another site must not learn which routes exist. While the server drains, every caller gets
      // `draining`.
      checkSite(incoming, undefined, parts.hosts())
      throw parts.isDraining() ? draining() : error
    }
  }

  /** Finds a file of the dashboard for a browser. It needs no token, because the files hold no secrets. */
  function findPage(incoming: Incoming): Outgoing | undefined {
    const found = parts.assets.find(incoming, () => router.find(incoming.method, incoming.path) !== undefined)
    if (found === undefined) return undefined
    checkSite(incoming, undefined, parts.hosts())
    if (parts.isDraining()) throw draining()
    return found
  }

  function fail(thrown: unknown, requestId: string): Outgoing {
    const error = asSignalboxError(thrown)
    parts.onProblem(error, thrown, requestId)
    return replyProblem(error)
  }

  return {
    async answer(incoming, requestId) {
      const begunAt = performance.now()
      let context: RequestContext | undefined
      let outgoing: Outgoing
      parts.onBegan()
      try {
        const page = findPage(incoming)
        if (page !== undefined) outgoing = page
        else {
          const { route, params } = match(incoming)
          context = new RequestContext(spaces, route, params, incoming, begunAt)
          outgoing = await runRequest(context)
        }
      } catch (thrown) {
        outgoing = fail(thrown, requestId)
      }
      parts.onAnswered({
        requestId,
        incoming,
        route: context?.route,
        principalId: context?.principalId,
        status: outgoing.status,
        ms: performance.now() - begunAt,
        bytes: 'body' in outgoing ? outgoing.body.length : undefined,
      })
      return outgoing
    },
  }
}

function planOf(route: Route, { handlers, maxBodyBytes }: ApiParts): Plan {
  const handler = handlers[route.id]
  if (handler === undefined) throw new Error(`The route ${route.id} has no handler.`)
  const scale = maxBodyBytes / bodyLimits.maxBytes
  const { maxBytes, maxKeys } = route.limits ?? bodyLimits
  const listLimits = { maxBytes: Math.floor(maxBytes * scale), maxKeys }
  const ordinary = { maxBytes: maxBodyBytes, maxKeys: bodyLimits.maxKeys }
  return {
    handler,
    act: operatorActs.get(route.id),
    isKeyBeside: !keepsKeyWithEffect(route),
    mayWait: mayWait(route),
    status: Math.min(...Object.keys(route.replies).map(Number)),
    params: pathParams(route),
    limits: route.limitsForLists ? ordinary : listLimits,
    listLimits,
  }
}

/** Enough for `{}` with spaces around it. */
const noBodyLimits: BodyLimits = { maxBytes: 64, maxKeys: 0 }

function readBytes(route: Route, { listLimits }: Plan, incoming: Incoming): Uint8Array | Promise<Uint8Array> {
  const encoding = incoming.header('content-encoding')
  if (encoding !== undefined && encoding !== 'identity') throw encoded()
  return route.body === undefined ? readNothing(incoming) : incoming.readBody(listLimits)
}

function readNothing(incoming: Incoming): Uint8Array | Promise<Uint8Array> {
  const refuse = (error: unknown): never => {
    throw isSignalboxError(error, 'too_large') ? takesNoBody() : error
  }
  try {
    const reading = incoming.readBody(noBodyLimits)
    return reading instanceof Promise ? reading.catch(refuse) : reading
  } catch (error) {
    return refuse(error)
  }
}

function readBody(route: Route, { limits, listLimits }: Plan, bytes: Uint8Array): unknown {
  const { body, bodyOptional } = route
  if (bytes.length === 0) {
    if (body === undefined) return undefined
    if (bodyOptional !== true) throw bodyMissing()
    return {}
  }
  const value = parseBody(bytes, isList(bytes) ? listLimits : limits)
  if (body === undefined) {
    if (!isEmptyObject(value)) throw takesNoBody()
    return undefined
  }
  validate(bodySubject, body, value)
  return value
}

function isEmptyObject(value: unknown): boolean {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
  )
}

function scopeMissing(needed: Scope, held: Scope): SignalboxError {
  return new SignalboxError(
    'forbidden',
    `This route needs the scope "${needed}", and the token has "${held}". Use a token with "${needed}".`,
    { details: { scope: needed } },
  )
}

function onlyNodes(): SignalboxError {
  return new SignalboxError(
    'forbidden',
    'This token is bound to nodes: it may only connect as one of them. Use a token that is not bound to nodes.',
  )
}

/** How long a caller should wait. By then another server has taken over, or this one is back. */
const drainRetryMs = 1_000

function draining(): SignalboxError {
  return new SignalboxError(
    'draining',
    'This server is shutting down; the request was not processed. Send it to another server, or retry in 1 s.',
    { details: { retryAfterMs: drainRetryMs } },
  )
}

function overloaded(): SignalboxError {
  return new SignalboxError('overloaded', 'Server overloaded; the request was not processed. Retry in 1 s.', {
    details: { retryAfterMs: 1_000 },
  })
}

function encoded(): SignalboxError {
  return invalidArgument('The body has a Content-Encoding. Send it without compression.')
}

function takesNoBody(): SignalboxError {
  return invalidArgument('This route takes no body. Send none, or {}.')
}

function bodyMissing(): SignalboxError {
  return invalidArgument('The request has no body. This route needs a JSON body.')
}
