/** Several servers on one store: nodes come to the first, tasks to the last. */
import { SignalboxError } from '../../../src/core/errors.ts'
import type { DispatchParts } from '../../../src/dispatch/create-dispatch.ts'
import type { DispatchOptions } from '../../../src/dispatch/dispatch-options.ts'
import type { Dispatch } from '../../../src/dispatch/tasks/task.ts'
import {
  FakeNode,
  type FakeNodeOptions,
  type Stage,
  type Store,
  startDispatch,
  until,
} from '../service/stage.ts'

/** The numbers of servers for every story. */
export const serverCounts = [1, 3] as const

/** A server that can be cut off from its store, as one that was killed is. */
export interface Server extends Stage {
  readonly name: string
  /** From now on nothing of it reaches the store. */
  kill(): void
}

/** The servers of a fleet. */
export interface Servers extends AsyncDisposable {
  readonly all: readonly Server[]
  /** Where nodes connect. */
  readonly first: Dispatch
  /** Where tasks are submitted and asked for. */
  readonly last: Dispatch
}

/** A store that several servers share. */
export type Shared = Pick<Store, 'backend' | 'again'>

const quick: DispatchOptions = { closedGraceMs: 300, pollMs: 50 }

/** Starts `count` servers; resolves when they work and are in the cluster state. */
export async function startServers(
  store: Shared,
  count: number,
  options: DispatchOptions = {},
  parts: Partial<DispatchParts> = {},
): Promise<Servers> {
  const all: Server[] = []
  for (let at = 0; at < count; at += 1) {
    all.push(await startServer(store, `server-${at + 1}`, options, parts))
  }
  await until('all servers are in the cluster state', async () => {
    const rows = await Promise.all(all.map(({ name }) => store.backend.cluster.find('server', name)))
    return rows.every((row) => row !== undefined)
  })
  return {
    all,
    first: all[0]!.dispatch,
    last: all.at(-1)!.dispatch,
    async [Symbol.asyncDispose]() {
      await Promise.all(all.map((server) => server[Symbol.asyncDispose]()))
    },
  }
}

export async function startServer(
  store: Shared,
  name: string,
  options: DispatchOptions = {},
  parts: Partial<DispatchParts> = {},
): Promise<Server> {
  const backend = await store.again()
  let isDead = false
  const cut = <Target extends object>(target: Target): Target =>
    new Proxy(target, {
      get(_, method) {
        const call = Reflect.get(target, method) as unknown
        if (typeof call !== 'function') return call
        return async (...args: unknown[]) => {
          if (isDead) throw new SignalboxError('store_unavailable', 'The server was killed.')
          return (call as (...args: unknown[]) => unknown).apply(target, args)
        }
      },
    })
  const stores = {
    ...backend,
    jobs: cut(parts.jobs ?? backend.jobs),
    logs: cut(parts.logs ?? backend.logs),
    cluster: cut(backend.cluster),
  }
  const stage = startDispatch(
    stores,
    { ...quick, workerId: name, ...options },
    { ...parts, jobs: stores.jobs, logs: stores.logs },
  )
  await until('it works', () => stage.dispatch.ready)
  return {
    ...stage,
    name,
    kill() {
      isDead = true
    },
  }
}

/** A node that has been welcomed. */
export async function connect(dispatch: Dispatch, options: FakeNodeOptions = {}): Promise<FakeNode> {
  const node = new FakeNode(dispatch, options)
  await until('it is welcomed', () => node.heard('welcome') === 1)
  return node
}

/** Waits for the end of a task, as any server sees it. */
export async function ended(dispatch: Dispatch, taskId: string, status = 'completed'): Promise<void> {
  await until(`${taskId} is ${status}`, async () => (await dispatch.task(taskId))?.status === status)
}
