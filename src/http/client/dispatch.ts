import type { SignalboxError } from '../../core/errors.ts'
import {
  type CancelTaskBody,
  type CordonNodeBody,
  cancelTask,
  cordonNode,
  type DefinePoolBody,
  type DrainNodeBody,
  definePool,
  drainNode,
  explainTask,
  getTask,
  type ListNodesQuery,
  type ListTasksQuery,
  listNodes,
  listPools,
  listTasks,
  removePool,
  type ShapeOf,
  type SubmitTaskBody,
  submitTask,
  type TaskEvents,
  taskEvents,
} from '../contract/index.ts'
import type { Client } from './client.ts'

/** A task as the server shows it. */
export type WireTask = ShapeOf<typeof cancelTask>['reply']
/** The same with what it was submitted with. */
export type WireFoundTask = ShapeOf<typeof getTask>['reply']
/** A node as the server shows it. */
export type WireNode = ShapeOf<typeof drainNode>['reply']
/** What happened to a task. */
export type WireTaskEvent = {
  readonly [Type in keyof TaskEvents]: { readonly type: Type } & TaskEvents[Type]
}[keyof TaskEvents]

export interface WatchTaskOptions {
  readonly signal?: AbortSignal | undefined
  /** Told when the connection broke, with why and how long until the next. */
  readonly onBreak?: ((error: SignalboxError, retryInMs: number) => void) | undefined
}

/** The verbs of dispatch, over HTTP. Nodes connect with `connectNode`. */
export interface DispatchClient {
  submit(task: SubmitTaskBody): Promise<ShapeOf<typeof submitTask>['reply']>
  /** Throws `not_found`. */
  task(taskId: string): Promise<WireFoundTask>
  tasks(query?: ListTasksQuery): Promise<ShapeOf<typeof listTasks>['reply']>
  /** From the present state to the end; after a reconnect the present state comes again. Resolves after the end. */
  watch(taskId: string, seen: (event: WireTaskEvent) => void, options?: WatchTaskOptions): Promise<void>
  cancel(taskId: string, options?: CancelTaskBody): Promise<WireTask>
  explain(taskId: string): Promise<ShapeOf<typeof explainTask>['reply']>
  nodes(query?: ListNodesQuery): Promise<ShapeOf<typeof listNodes>['reply']>
  drain(nodeId: string, options?: DrainNodeBody): Promise<WireNode>
  /** Closes a node, or one service of it, for new work until `uncordon`. */
  cordon(nodeId: string, options?: Pick<CordonNodeBody, 'service'>): Promise<void>
  /** Opens what `cordon` closed, also when the node is gone. */
  uncordon(nodeId: string, options?: Pick<CordonNodeBody, 'service'>): Promise<void>
  pools(): Promise<ShapeOf<typeof listPools>['reply']>
  definePool(pool: DefinePoolBody): Promise<DefinePoolBody>
  /** False: there was none. */
  removePool(name: string): Promise<boolean>
}

const ends: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

export function createDispatchClient(client: Pick<Client, 'call' | 'stream'>): DispatchClient {
  return {
    submit: (body) => client.call(submitTask, { body }),
    task: (id) => client.call(getTask, { params: { id } }),
    tasks: (query = {}) => client.call(listTasks, { query }),
    async watch(id, seen, { signal, onBreak } = {}) {
      // A stream reconnects by itself; it is over when the task is.
      const over = new AbortController()
      const ended = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal])
      const tell = ({ type, data }: { readonly type: string; readonly data: unknown }) => {
        if (type === 'error') return
        seen({ type, ...(data as object) } as WireTaskEvent)
        if (ends.has(type)) over.abort()
      }
      await client.stream(taskEvents, { params: { id }, signal: ended, onEvent: tell, onBreak })
    },
    cancel: (id, body = {}) => client.call(cancelTask, { params: { id }, body }),
    explain: (id) => client.call(explainTask, { params: { id } }),
    nodes: (query = {}) => client.call(listNodes, { query }),
    drain: (id, body = {}) => client.call(drainNode, { params: { id }, body }),
    async cordon(id, options = {}) {
      await client.call(cordonNode, { params: { id }, body: { ...options, on: true } })
    },
    async uncordon(id, options = {}) {
      await client.call(cordonNode, { params: { id }, body: { ...options, on: false } })
    },
    pools: () => client.call(listPools),
    definePool: (body) => client.call(definePool, { body }),
    removePool: async (name) => (await client.call(removePool, { params: { name } })).removed,
  }
}
