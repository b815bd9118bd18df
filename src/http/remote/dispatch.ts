import { isSignalboxError } from '../../core/errors.ts'
import { encodeJson } from '../../core/json.ts'
import { text } from '../../core/options.ts'
import type { Dispatch, NodeView, PoolView, TaskEvent } from '../../dispatch/index.ts'
import type { Client, WireTaskEvent } from '../client/index.ts'
import { objectOf, withoutUndefined } from './encode.ts'

/** What a box on a server has of dispatch: tasks, and the views of operators, which have to be asked for there. */
export interface RemoteDispatch
  extends Pick<
    Dispatch,
    | 'submit'
    | 'task'
    | 'tasks'
    | 'watch'
    | 'cancel'
    | 'explain'
    | 'drain'
    | 'cordon'
    | 'uncordon'
    | 'definePool'
    | 'removePool'
  > {
  /** Every node. */
  nodes(): Promise<readonly NodeView[]>
  node(nodeId: string): Promise<NodeView | undefined>
  pools(): Promise<readonly PoolView[]>
}

const pageSize = 500
/** Events that wait to be taken; of more, progress is left out first. */
const maxWaiting = 64

/** The verbs of dispatch on a server elsewhere. */
export function createRemoteDispatch(client: Client): RemoteDispatch {
  const { dispatch: wire } = client
  return {
    async submit(options) {
      // What JSON would bend on its way is refused here, as it would be there.
      encodeJson('payload', objectOf('submit', options).payload)
      return wire.submit(withoutUndefined(options))
    },
    async task(taskId) {
      try {
        return await wire.task(taskId)
      } catch (error) {
        if (isSignalboxError(error, 'not_found')) return undefined
        throw error
      }
    },
    tasks: async (options = {}) => wire.tasks(withoutUndefined(options)),
    watch: (taskId, { signal } = {}) => watchTask(client, taskId, signal),
    cancel: async (taskId, options = {}) => wire.cancel(taskId, withoutUndefined(options)),
    explain: async (taskId) => wire.explain(taskId),
    async nodes() {
      const all: NodeView[] = []
      let cursor: string | null | undefined
      do {
        const page = await wire.nodes({ limit: pageSize, ...(cursor ? { cursor } : {}) })
        all.push(...page.items)
        cursor = page.cursor
      } while (cursor !== null)
      return all
    },
    node: async (nodeId) => (await wire.nodes({ nodeId: text('nodeId', nodeId) })).items[0],
    drain: async (nodeId, options = {}) => wire.drain(nodeId, withoutUndefined(options)),
    cordon: async (nodeId, options = {}) => wire.cordon(nodeId, withoutUndefined(options)),
    uncordon: async (nodeId, options = {}) => wire.uncordon(nodeId, withoutUndefined(options)),
    pools: async () => (await wire.pools()).items,
    async definePool(pool) {
      await wire.definePool(pool)
    },
    removePool: async (name) => wire.removePool(text('removePool.name', name)),
  }
}

/** The stream of callbacks, as something to be taken one by one. */
async function* watchTask(
  client: Client,
  taskId: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<TaskEvent, void, undefined> {
  signal?.throwIfAborted()
  const left = new AbortController()
  const until = signal === undefined ? left.signal : AbortSignal.any([signal, left.signal])
  const waiting: TaskEvent[] = []
  let wake = Promise.withResolvers<void>()
  let end: { readonly error?: unknown } | undefined
  const seen = ({ type: status, ...data }: WireTaskEvent) => {
    if (status === 'progress' && waiting.at(-1)?.status === 'progress') waiting.pop()
    waiting.push({ status, ...data } as TaskEvent)
    if (waiting.length > maxWaiting) waiting.shift()
    wake.resolve()
  }
  const over = (how: { readonly error?: unknown }) => {
    end = how
    wake.resolve()
  }
  void client.dispatch.watch(taskId, seen, { signal: until }).then(
    () => over({}),
    (error: unknown) => over({ error }),
  )
  try {
    for (;;) {
      await wake.promise
      wake = Promise.withResolvers<void>()
      for (let event = waiting.shift(); event !== undefined; event = waiting.shift()) yield event
      if (end === undefined) continue
      if ('error' in end) throw end.error
      signal?.throwIfAborted()
      return
    }
  } finally {
    left.abort()
  }
}
