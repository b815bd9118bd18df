import type { AuditAct, AuditAction, AuditTarget } from '../../../audit/index.ts'
import { within } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import * as api from '../../contract/index.ts'
import type { Answer, Call } from '../call.ts'
import { asSignalboxError } from '../request/problem.ts'
import { redact } from './log-line.ts'

/**
 * Records the actions of operators, in one place for all routes: after the handler, when the outcome is known, and
 * before the server answers. The audit never blocks an action: if the store cannot write an entry in time, the server
 * logs that and answers as usual.
 */
export class AuditTrail {
  readonly #onFailed: (action: string, error: unknown) => void

  /** `onFailed` gets the error of an entry that was not written. Must not throw. */
  constructor(onFailed: (action: string, error: unknown) => void) {
    this.#onFailed = onFailed
  }

  /** Calls `handle` and records the outcome. */
  async follow(act: OperatorAct, call: Call, handle: () => Promise<Answer>): Promise<Answer> {
    let answer: Answer
    try {
      answer = await handle()
    } catch (thrown) {
      const { code, status } = asSignalboxError(thrown)
      const outcome = status < 500 ? 'refused' : 'unknown'
      await this.#record(act, call, { outcome, code, reply: undefined })
      throw thrown
    }
    const reply = 'body' in answer ? answer.body : undefined
    await this.#record(act, call, { outcome: 'done', code: null, reply })
    return answer
  }

  async #record(act: OperatorAct, call: Call, result: ActionResult): Promise<void> {
    try {
      const entry = entryOf(act, call, result)
      await within(deadlineMs, call.space.audit.record(entry), () => {
        throw new SignalboxError(
          'store_unavailable',
          `The store took more than ${deadlineMs} ms to write an entry of the audit.`,
        )
      })
    } catch (error) {
      this.#onFailed(act.action, error)
    }
  }
}

/** How long an answer waits for its entry. A later write still happens. */
const deadlineMs = 2_000

/** The outcome of an action, with the reply. */
interface ActionResult extends Required<Pick<AuditAct, 'outcome' | 'code'>> {
  readonly reply: unknown
}

function entryOf(act: OperatorAct, call: Call, { reply, ...outcome }: ActionResult): AuditAct {
  const { params, body, principal } = call
  const { id, name } = principal
  return {
    actor: { id, name: name === undefined ? null : redact(name) },
    action: act.action,
    target: redactTarget(act.target({ params, body, reply })),
    ...outcome,
  }
}

/** Hides secrets that a caller sent as a name or an id. */
function redactTarget(target: ReturnType<OperatorAct['target']>): AuditTarget {
  const kept: Record<string, string | number> = {}
  for (const [key, value] of Object.entries(target)) {
    if (value === undefined || value === null) continue
    kept[key] = typeof value === 'string' ? redact(value) : value
  }
  return kept
}

/**
 * A route that is an action of operators, with its name in the audit and its target. The audit does not record the work
 * of the fleet: adding, claiming, acknowledging and locking. A target holds names, never payloads.
 */
export interface OperatorAct {
  readonly action: AuditAction
  /** The target of the action, from the request and the reply. */
  target(asked: Asked): LooseTarget
  /** False for a request without effect, such as a dry run: the audit does not record it. @default always true */
  hasEffect?(body: unknown): boolean
}

interface Asked<S extends api.Shape = api.Shape> {
  readonly params: S['params']
  readonly body: S['body']
  /** Undefined if the action failed. */
  readonly reply: S['reply'] | undefined
}

/** The audit leaves out undefined and null fields. */
type LooseTarget = Readonly<Record<string, string | number | null | undefined>>

/** The actions by route id. */
export const operatorActs: ReadonlyMap<string, OperatorAct> = new Map([
  act(api.evictLock, 'lock.evict', ({ body: { operation, resource, node, requestId } }) => ({
    operation,
    resource,
    node,
    requestId,
  })),
  act(api.pauseQueue, 'queue.pause', ({ params }) => ({ queue: params.name })),
  act(api.resumeQueue, 'queue.resume', ({ params }) => ({ queue: params.name })),
  act(api.limitQueue, 'queue.limit', ({ params, body }) => ({
    queue: params.name,
    limits: JSON.stringify(body),
  })),
  act(api.unlimitQueue, 'queue.unlimit', ({ params }) => ({ queue: params.name })),
  act(api.cancelJob, 'job.cancel', ({ params }) => ({ jobId: params.id })),
  act(api.retryJob, 'job.retry', ({ params }) => ({ jobId: params.id })),
  act(api.retryDeadJobs, 'jobs.retryDead', ({ body: { queue, kind, limit }, reply }) => ({
    queue,
    kind,
    limit,
    retried: reply?.retried,
  })),
  act(api.pruneJobs, 'jobs.prune', ({ body, reply }) => ({
    olderThanMs: body.olderThanMs,
    pruned: reply?.pruned,
  })),
  act(
    api.bulkJobs,
    'jobs.bulk',
    ({ body: { action, search, limit }, reply }) => ({
      operationId: reply !== undefined && 'id' in reply ? reply.id : undefined,
      action,
      search: search?.slice(0, maxMatchChars),
      limit,
    }),
    ({ dryRun }) => dryRun !== true,
  ),
  act(api.cancelBulkOperation, 'jobs.cancelBulk', ({ params, reply }) => ({
    operationId: params.id,
    done: reply?.done,
  })),
  act(api.removeJobs, 'jobs.remove', ({ body, reply }) => ({
    count: body.ids.length,
    jobId: body.ids.length === 1 ? body.ids[0] : undefined,
    removed: reply?.removed.length,
  })),
  act(api.quietWorker, 'worker.quiet', ({ params }) => ({ worker: params.id })),
  act(api.resumeWorker, 'worker.resume', ({ params }) => ({ worker: params.id })),
  act(api.stopWorker, 'worker.stop', ({ params, body }) => ({ worker: params.id, graceMs: body?.graceMs })),
  act(api.setSchedule, 'schedule.set', ({ body }) => ({
    schedule: body.name,
    cron: body.cron,
    timeZone: body.timeZone,
    everyMs: body.everyMs,
    kind: body.job.kind,
  })),
  act(api.removeSchedule, 'schedule.remove', ({ params }) => ({ schedule: params.name })),
  act(api.pauseSchedule, 'schedule.pause', ({ params }) => ({ schedule: params.name })),
  act(api.resumeSchedule, 'schedule.resume', ({ params }) => ({ schedule: params.name })),
  act(api.runSchedule, 'schedule.run', ({ params, reply }) => ({ schedule: params.name, jobId: reply?.id })),
  act(api.createToken, 'token.create', ({ body, reply }) => ({
    tokenId: reply?.id,
    name: body.name,
    scope: body.scope,
    nodes: body.nodes && shorten(body.nodes.join(', ')),
    namespace: reply?.namespace ?? body.namespace,
    expiresInMs: body.expiresInMs,
  })),
  act(api.revokeToken, 'token.revoke', ({ params, reply }) => ({
    tokenId: params.id,
    name: reply?.name,
    namespace: reply?.namespace,
  })),
  act(api.forgetOnce, 'guard.forget', ({ body: { key, space } }) => ({ key, space })),
  act(api.subscribe, 'monitor.subscribe', ({ body, reply }) => ({
    subscriptionId: reply?.id,
    name: body.name,
    channel: channelType(body.channel),
  })),
  act(api.unsubscribe, 'monitor.unsubscribe', ({ params }) => ({ subscriptionId: params.id })),
  act(api.createSilence, 'monitor.silence', ({ body: { match, forMs, startsAt }, reply }) => ({
    silenceId: reply?.id,
    match: match && JSON.stringify(match).slice(0, maxMatchChars),
    forMs,
    startsAt,
  })),
  act(api.endSilence, 'monitor.unsilence', ({ params }) => ({ silenceId: params.id })),
  act(api.replayNotification, 'monitor.replay', ({ params }) => ({ notificationId: params.id })),
  act(api.cancelTask, 'task.cancel', ({ params }) => ({ taskId: params.id })),
  act(api.drainNode, 'node.drain', ({ params, body: { on = true, deadlineMs } }) => ({
    nodeId: params.id,
    on: on ? 'on' : 'off',
    deadlineMs,
  })),
  act(api.cordonNode, 'node.cordon', ({ params, body: { service, on = true } }) => ({
    nodeId: params.id,
    service,
    on: on ? 'on' : 'off',
  })),
  act(api.definePool, 'pool.define', ({ body }) => ({ pool: body.name })),
  act(api.removePool, 'pool.remove', ({ params }) => ({ pool: params.name })),
  act(api.addAlerts, 'alerts.add', ({ body, reply }) => ({
    subscriptionId: reply?.id,
    name: body.name,
    rule: body.rule,
    channel: channelType(body.channel),
  })),
  act(api.removeAlerts, 'alerts.remove', ({ params }) => ({ subscriptionId: params.id })),
  act(api.testAlerts, 'alerts.test', () => ({})),
  act(api.testChannel, 'monitor.test', ({ body }) => ({ channel: channelType(body.channel) })),
])

/** A match may list a thousand names. Its beginning is enough to recognise it. */
const maxMatchChars = 500

/** The type of a channel. All other fields may be secret, even its address. */
function channelType({ type }: { readonly type?: unknown }): string | undefined {
  return typeof type === 'string' && /^[a-z]{1,32}$/.test(type) ? type : undefined
}

function act<S extends api.Shape>(
  { id }: api.Route<S>,
  action: AuditAction,
  target: (asked: Asked<S>) => LooseTarget,
  hasEffect?: (body: S['body']) => boolean,
): [string, OperatorAct] {
  // The table holds routes of all shapes. Each action gets only requests of its own route.
  return [id, { action, target, ...(hasEffect && { hasEffect }) } as OperatorAct]
}

/** Shortens a long list of names for an entry. */
function shorten(names: string): string {
  return names.length > 1_000 ? `${names.slice(0, 999).toWellFormed()}…` : names
}
