import type { Task } from '../../dispatch/index.ts'
import type { FleetWorker } from '../../jobs/index.ts'
import { escapeText, showSpan } from '../print.ts'
import { type Act, columnsOf, lookOf, maxRows, type Pane, type Row } from './pane.ts'

/** The workers of all processes and their running jobs. The user can quiet, resume and stop them. */
export const workers: Pane = {
  name: 'workers',
  keys: ['5', 'w'],
  columns: columnsOf('WORKER', 'STATE', 'HOST', 'RELEASE', '>RUNS', 'QUEUES', 'NOW', '>SEEN'),
  empty: 'No worker runs.',
  async look(box) {
    const { items, cursor, at } = await box.jobs.workers({ limit: maxRows })
    const isGone = ({ state }: FleetWorker) => state === 'gone'
    const sorted = items.toSorted((a, b) => Number(isGone(a)) - Number(isGone(b)) || (a.id < b.id ? -1 : 1))
    return { ...lookOf(items, sorted, (worker) => workerRow(worker, at)), isCut: cursor !== null }
  },
}

function workerRow(worker: FleetWorker, at: number): Row {
  const { id, state, wanted, host, pid, release, queues, running, runningCount, concurrency, seenAt } = worker
  const kinds = Map.groupBy(running, ({ kind }) => kind)
  return {
    id,
    cells: [
      ...[id, state].map(escapeText),
      host === null ? '-' : escapeText(pid === null ? host : `${host} ${pid}`),
      release === null ? '-' : escapeText(release),
      `${runningCount ?? '-'}/${concurrency ?? '-'}`,
      escapeText(queues.join(', ')),
      escapeText(Array.from(kinds, ([kind, jobs]) => `${kind} ${jobs.length}`).join(', ')),
      showSpan(Math.max(0, at - seenAt)),
    ],
    isAlert: state !== 'running',
    acts: state === 'gone' || wanted === 'stop' ? {} : workerActs(id, wanted === 'quiet'),
  }
}

function workerActs(id: string, isQuiet: boolean): Readonly<Record<string, Act>> {
  const name = escapeText(id)
  return {
    P: {
      question: isQuiet
        ? `Resume ${name}?`
        : `Quiet ${name}? It finishes what it runs and claims nothing more.`,
      async perform(box) {
        await (isQuiet ? box.jobs.resumeWorker(id) : box.jobs.quietWorker(id))
        return isQuiet ? `${name} was asked to resume` : `${name} was asked to be quiet`
      },
    },
    S: {
      question: `Stop ${name}? What it still runs after 10 seconds goes back to its queue.`,
      async perform(box) {
        await box.jobs.stopWorker(id)
        return `${name} was asked to stop`
      },
    },
  }
}

/** Tasks for nodes, newest first. The user can cancel them. */
export const tasks: Pane = {
  name: 'tasks',
  keys: ['6', 't'],
  columns: columnsOf('TASK', 'SERVICE', 'STATUS', 'NODE', '>ATTEMPT', '>AGE'),
  empty: 'There are no tasks.',
  async look(box) {
    const { items, cursor } = await box.dispatch.tasks({ limit: taskRows })
    const now = Date.now()
    return { ...lookOf(items, items, (task) => taskRow(task, now)), isCut: cursor !== null }
  },
}

/** Reads the tasks from the store each time. */
const taskRows = 100

function taskRow({ taskId, service, status, nodeId, attempt, submittedAt }: Task, now: number): Row {
  const isOver = status === 'completed' || status === 'failed' || status === 'cancelled'
  return {
    id: taskId,
    cells: [
      ...[taskId, service, status, nodeId ?? '-'].map(escapeText),
      `${attempt}`,
      showSpan(Math.max(0, now - submittedAt)),
    ],
    isAlert: status === 'failed',
    acts: isOver
      ? {}
      : {
          X: {
            question: `Cancel the task ${escapeText(taskId)}?`,
            async perform(box) {
              const { status: now } = await box.dispatch.cancel(taskId)
              return `the task ${escapeText(taskId)} is ${now}`
            },
          },
        },
  }
}
