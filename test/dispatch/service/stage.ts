/** A dispatcher on a real store, with nodes that are not sockets but speak as nodes do. */
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createId } from '../../../src/core/ids.ts'
import type {
  NodeFrame,
  NodeLink,
  NodeSession,
  ServerFrame,
} from '../../../src/dispatch/connections/node-connection.ts'
import { createDispatch, type DispatchParts } from '../../../src/dispatch/create-dispatch.ts'
import type { DispatchOptions } from '../../../src/dispatch/dispatch-options.ts'
import type { DispatchEvent } from '../../../src/dispatch/effect-runner.ts'
import type { Labels, ServiceOffer } from '../../../src/dispatch/node.ts'
import type { Dispatch, TaskEvent } from '../../../src/dispatch/tasks/task.ts'
import type { JobStore } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { openMemory } from '../../../src/storage/memory/index.ts'
import { openSqlite } from '../../../src/storage/sqlite/index.ts'

/** The engines that every story runs on. */
export const engines = ['memory', 'sqlite'] as const

/** A separate store. */
export interface Store extends AsyncDisposable {
  readonly url: string
  readonly backend: Backend
  /** Another connection to the same data; for memory the same one. */
  again(): Promise<Backend>
}

export async function openStore(engine: (typeof engines)[number]): Promise<Store> {
  const file = join(tmpdir(), `dispatch-${createId()}.db`)
  const url = engine === 'memory' ? 'memory:' : `sqlite:${file}`
  const namespace = 'default'
  const open = () =>
    engine === 'memory'
      ? openMemory({ namespace, migrate: true })
      : openSqlite(url, { namespace, migrate: true })
  const backend = await open()
  const others: Backend[] = []
  return {
    url,
    backend,
    async again() {
      if (engine === 'memory') return backend
      const other = await open()
      others.push(other)
      return other
    },
    async [Symbol.asyncDispose]() {
      for (const each of [...others, backend]) await each.close()
      for (const end of ['', '-wal', '-shm']) await rm(file + end, { force: true })
    },
  }
}

/** A dispatcher that runs, and what it logged. */
export interface Stage extends AsyncDisposable {
  readonly dispatch: Dispatch
  readonly events: DispatchEvent[]
}

export function startDispatch(
  {
    jobs,
    logs,
    guards,
    notifier,
    cluster,
    traits,
  }: Pick<DispatchParts, 'jobs' | 'logs' | 'guards' | 'notifier' | 'cluster'> & Pick<Backend, 'traits'>,
  options: DispatchOptions = {},
  parts: Partial<DispatchParts> = {},
): Stage {
  const events: DispatchEvent[] = []
  const log = (event: DispatchEvent) => void events.push(event)
  const { remoteWakeUps } = traits
  const dispatch = createDispatch(
    { jobs, logs, guards, notifier, cluster, remoteWakeUps, log, ...parts },
    { pollMs: 50, ...options },
  )
  dispatch.start()
  return { dispatch, events, [Symbol.asyncDispose]: () => dispatch.stop({ graceMs: 0 }) }
}

type Assigned = Extract<ServerFrame, { type: 'task.assign' }>

export interface FakeNodeOptions {
  readonly nodeId?: string
  readonly instanceId?: string
  readonly services?: Readonly<Record<string, number>>
  readonly tags?: ServiceOffer['tags']
  readonly labels?: Labels
  readonly running?: readonly string[] | null
  /** Its behaviour with a task; by default none. */
  readonly onTask?: (task: Assigned, node: FakeNode) => unknown
}

/** A node that is not a socket. */
export class FakeNode implements NodeLink {
  readonly nodeId: string
  readonly frames: ServerFrame[] = []
  readonly tasks: Assigned[] = []
  session: NodeSession
  closedWith: number | null = null
  readonly #onTask: FakeNodeOptions['onTask']

  constructor({ connections }: Dispatch, options: FakeNodeOptions = {}) {
    const { nodeId = 'n1', instanceId = `i-${createId()}`, services = { nmt: 1 }, tags = {} } = options
    this.nodeId = nodeId
    this.#onTask = options.onTask
    const offers = Object.entries(services).map(([name, slots]) => ({ name, slots, tags }))
    this.session = connections.connect(
      {
        type: 'hello',
        ...{ nodeId, instanceId, services: offers, labels: options.labels ?? {} },
        running: options.running ?? null,
        protocol: 1,
      },
      this,
    )
  }

  send(frame: ServerFrame): boolean {
    if (this.closedWith !== null) return false
    // Like a socket: a later change of the object does not affect a sent frame.
    const copy = JSON.parse(JSON.stringify(frame)) as ServerFrame
    this.frames.push(copy)
    if (copy.type === 'task.assign') {
      this.tasks.push(copy)
      setImmediate(() => this.#onTask?.(copy, this))
    }
    return true
  }

  close(code: number): void {
    if (this.closedWith !== null) return
    this.closedWith = code
    setImmediate(() => this.session.closed(`closed with ${code}`))
  }

  /** Its process was killed: the socket closes. */
  die(): void {
    this.closedWith = 1006
    this.session.closed('reset')
  }

  say(frame: Exclude<NodeFrame, { type: 'hello' }>): void {
    if (this.closedWith === null) this.session.receive(frame)
  }

  accept({ taskId, attempt }: { taskId: string; attempt: number }): void {
    this.say({ type: 'task.accept', taskId, attempt })
  }

  finish({ taskId, attempt }: { taskId: string; attempt: number }, output: unknown = 'done'): void {
    this.say({ type: 'task.result', taskId, attempt, output })
  }

  fail({ taskId, attempt }: { taskId: string; attempt: number }, retryable = true): void {
    this.say({ type: 'task.fail', taskId, attempt, error: { code: 'boom', message: 'it broke' }, retryable })
  }

  heard(type: ServerFrame['type'], taskId?: string): number {
    return this.frames.filter(
      (frame) =>
        frame.type === type && (taskId === undefined || ('taskId' in frame && frame.taskId === taskId)),
    ).length
  }
}

/** Does each task at once. */
export const obliging: NonNullable<FakeNodeOptions['onTask']> = (task, node) => {
  node.accept(task)
  node.finish(task, { by: node.nodeId, got: task.payload })
}

/** Waits until it holds. */
export async function until(what: string, holds: () => unknown, withinMs = 10_000): Promise<void> {
  const deadline = performance.now() + withinMs
  while (!(await holds())) {
    if (performance.now() > deadline) assert.fail(`${what}: not within ${withinMs} ms`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** All events of a watcher, to the end. */
export async function history(dispatch: Dispatch, taskId: string): Promise<readonly TaskEvent[]> {
  const reported: TaskEvent[] = []
  for await (const event of dispatch.watch(taskId, { signal: AbortSignal.timeout(15_000) }))
    reported.push(event)
  return reported
}

/** A store each of whose calls takes so long. */
export function slowed(jobs: JobStore, ms: number): JobStore {
  return new Proxy(jobs, {
    get(target, name) {
      const call = Reflect.get(target, name) as unknown
      if (typeof call !== 'function') return call
      return async (...args: unknown[]) => {
        await new Promise((resolve) => setTimeout(resolve, ms))
        return (call as (...args: unknown[]) => unknown).apply(target, args)
      }
    },
  })
}
