import { type Client, isSignalboxError, type WireJob, type WireTask } from '../../../src/client/index.ts'

/** Tasks are jobs of this queue: there they can be found by how they stand. */
const queue = 'signalbox.dispatch'

export const taskFilters = ['open', 'completed', 'failed', 'cancelled'] as const
export type TaskFilter = (typeof taskFilters)[number]

export interface TasksPage {
  readonly items: readonly WireTask[]
  readonly cursor: string | null
}

const jobStates = { completed: 'completed', failed: 'dead', cancelled: 'cancelled' } as const
/** Taken by a server, where they wait or run; and not taken yet. */
const openStates = ['running', 'ready'] as const
/** How each open one stands is asked one by one, a few at a time. */
const openPage = 25
const askedAtOnce = 5

/** A page of tasks, the newest first, of one status or of all. */
export async function listTasks(
  client: Client,
  filter: TaskFilter | undefined,
  { limit, cursor }: { readonly limit: number; readonly cursor: string | undefined },
): Promise<TasksPage> {
  const from = cursor === undefined ? {} : { cursor }
  if (filter === undefined) return client.dispatch.tasks({ limit, ...from })
  if (filter !== 'open') {
    const page = await client.jobs.list({ queue, state: jobStates[filter], limit, ...from })
    return { items: page.items.map((job) => taskOf(job, filter)), cursor: page.cursor }
  }
  const pages = await Promise.all(
    openStates.map((state) => client.jobs.list({ queue, state, limit: openPage, ...from })),
  )
  const { ids, cursor: next } = mergePages(pages)
  return { items: await askEach(client, ids), cursor: next }
}

interface IdsPage {
  readonly items: readonly { readonly id: string }[]
  readonly cursor: string | null
}

/** Pages of ids, each newest first, as one: no further than every page reaches, for beyond that some are unknown. */
export function mergePages(pages: readonly IdsPage[]): {
  readonly ids: readonly string[]
  readonly cursor: string | null
} {
  const ends = pages.flatMap(({ cursor }) => (cursor === null ? [] : [cursor]))
  const cursor = ends.length === 0 ? null : ends.reduce((a, b) => (a > b ? a : b))
  const ids = pages
    .flatMap(({ items }) => items.map(({ id }) => id))
    .filter((id) => cursor === null || id >= cursor)
  return { ids: [...new Set(ids)].sort().reverse(), cursor }
}

async function askEach(client: Client, ids: readonly string[]): Promise<readonly WireTask[]> {
  const found = new Map<string, WireTask>()
  const rest = [...ids]
  const ask = async () => {
    for (let id = rest.pop(); id !== undefined; id = rest.pop()) {
      try {
        const task = await client.dispatch.task(id)
        // It may have ended meanwhile.
        if (task.finishedAt === null) found.set(id, task)
      } catch (error) {
        if (!isSignalboxError(error, 'not_found')) throw error
      }
    }
  }
  await Promise.all(Array.from({ length: askedAtOnce }, ask))
  return ids.flatMap((id) => found.get(id) ?? [])
}

/** A task as its job keeps it. */
function taskOf(job: WireJob, status: Exclude<TaskFilter, 'open'>): WireTask {
  const result = job.result as { readonly nodeId?: string | null; readonly output?: unknown } | null
  const document = job.payload as { readonly service?: unknown } | null
  return {
    taskId: job.id,
    status,
    attempt: job.attempt,
    nodeId: result?.nodeId ?? null,
    service: typeof document?.service === 'string' ? document.service : '',
    output: result?.output ?? null,
    error: job.error === null ? null : { code: job.error.code ?? status, message: job.error.message },
    submittedAt: job.createdAt,
    finishedAt: job.finishedAt,
  }
}
