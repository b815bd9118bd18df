import { createHash } from 'node:crypto'
import type { Dispatch, FoundTask, NodeView } from '../../../dispatch/index.ts'
import { type ListNodesQuery, nodeProtocol, type Page } from '../../contract/index.ts'
import type { SomeHandlers } from '../call.ts'
import { hidden } from '../log/log-line.ts'
import type { Space } from '../namespace-services.ts'
import { required } from '../request/problem.ts'
import { createTasksFeed } from '../streams/watch-feeds.ts'

/** Handlers of dispatch. A body holds the arguments and options of the method. */
export const dispatchHandlers: SomeHandlers = {
  async submitTask({ body, space, principal, key }) {
    const idempotencyKey = body.idempotencyKey ?? (key && keyOf(principal.id, key.key))
    const submitted = await startedDispatch(space).submit({ ...body, idempotencyKey })
    return { status: submitted.duplicate ? 200 : 202, body: submitted }
  },
  async listTasks({ query, space }) {
    const { items, ...page } = await space.dispatch.tasks(query)
    const { redactor } = space
    // Hides values as in lists of jobs. A caller that reads a single task is its submitter, who needs the output.
    const shown = items.map((task) => ({
      ...task,
      output: redactor.result(task.output),
      error: redactor.error(task.error),
    }))
    return { body: { ...page, items: shown } }
  },
  async getTask({ params, space }) {
    const task = required(await space.dispatch.task(params.id), noTask(params.id))
    return { body: { ...task, ...shownOf(task, space) } }
  },
  async taskEvents({ params, space }) {
    // Checks first, because a stream that has begun cannot become a problem document.
    required(await space.dispatch.task(params.id), noTask(params.id))
    return { feed: space.feed(({ dispatch }) => createTasksFeed(dispatch, params.id)) }
  },
  async cancelTask({ params, body, space }) {
    return { body: await startedDispatch(space).cancel(params.id, body) }
  },
  async explainTask({ params, space }) {
    return { body: await space.dispatch.explain(params.id) }
  },
  async nodeInfo({ space }) {
    return { body: { protocol: nodeProtocol, heartbeatMs: space.dispatch.connections.heartbeatMs } }
  },
  async listNodes({ query, space }) {
    if (query.nodeId === undefined) return { body: pageOfNodes(space.dispatch.nodes(), query) }
    const node = space.dispatch.node(query.nodeId)
    return { body: { items: node === undefined ? [] : [node], cursor: null } }
  },
  async drainNode({ params, body, space }) {
    return { body: await startedDispatch(space).drain(params.id, body) }
  },
  async cordonNode({ params, body: { service = null, on = true }, space }) {
    const dispatch = startedDispatch(space)
    if (on) await dispatch.cordon(params.id, { service })
    else await dispatch.uncordon(params.id, { service })
    return { body: { cordoned: on } }
  },
  async listPools({ space }) {
    return { body: { items: space.dispatch.pools(), cursor: null } }
  },
  async definePool({ body, space }) {
    const dispatch = startedDispatch(space)
    const isKnown = dispatch.pools().some(({ name, signature }) => signature === null && name === body.name)
    await dispatch.definePool(body)
    return { status: isKnown ? 200 : 201, body }
  },
  async removePool({ params, space }) {
    return { body: { removed: await startedDispatch(space).removePool(params.name) } }
  },
}

/** Starts dispatch. Requests that only read do not call this, so they do not begin to claim tasks in a namespace. */
function startedDispatch({ dispatch }: Space): Dispatch {
  dispatch.start()
  return dispatch
}

/**
 * Hides values of a task's payload. A redact path may name a value as part of the task, or as part of its job, whose
 * payload contains the task's payload.
 */
function shownOf({ tenant, session, payload }: FoundTask, { redactor }: Space): Partial<FoundTask> {
  const shown = redactor.payload({ tenant, session, payload })
  if (typeof shown !== 'object' || shown === null) return { tenant: hidden, session: hidden, payload: hidden }
  const asJob = shown as Pick<FoundTask, 'tenant' | 'session' | 'payload'>
  return { ...asJob, payload: redactor.payload(asJob.payload) }
}

/** A page by node id. The cursor is the last id of the page before, in base64url. */
function pageOfNodes(
  nodes: readonly NodeView[],
  { service, limit = 50, cursor }: ListNodesQuery,
): Page<NodeView> {
  const after = typeof cursor !== 'string' ? '' : Buffer.from(cursor, 'base64url').toString()
  const wanted = nodes
    .filter(({ nodeId }) => nodeId > after)
    .filter(({ services }) => service === undefined || services.some(({ name }) => name === service))
    .sort((a, b) => (a.nodeId < b.nodeId ? -1 : 1))
  const items = wanted.slice(0, limit)
  const last = wanted.length > limit ? Buffer.from(items.at(-1)!.nodeId).toString('base64url') : null
  return { items, cursor: last }
}

/** The key of a caller. Keys of different callers are distinct, and a header may be longer than a name. */
function keyOf(principalId: string, key: string): string {
  return `request.${createHash('sha256').update(`${principalId}\n${key}`).digest('hex')}`
}

function noTask(taskId: string): string {
  return `There is no task "${taskId}".`
}
