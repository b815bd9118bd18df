/**
 * Checks the promises of dispatch from the records of nodes, the answers of servers and the final state of the store. A
 * pure function: every error names the promise and the thing.
 *
 * - R1: no node ever ran more at once than it has slots for, or got a task that it had no slot for.
 * - R2: at the end nothing is reserved, every node is ready, and all slots can be used at once.
 * - R4: an attempt is begun by one node, once; a task ends once, as the node with that attempt reported, and stays so;
 *   one submit creates one task; a caller that got an answer finds the task.
 * - RL1: the tasks of a dead node start again within the time limit.
 */
import {
  type Blow,
  dispatchTimes,
  type NodeEvent,
  type RestingNode,
  refusedCode,
  type SeenTask,
  type SubmitNote,
  type TaskOutput,
} from './dispatch-plan.ts'

export interface DispatchEvidence {
  readonly nodes: readonly NodeEvent[]
  readonly blows: readonly Blow[]
  readonly submits: readonly SubmitNote[]
  /** Tasks as servers showed them on the way, ended or not. */
  readonly seen: readonly SeenTask[]
  /** Every task of the store, when all is over. */
  readonly last: readonly SeenTask[]
  readonly resting: readonly RestingNode[]
  /** Tasks that were to run at once at last, one for each slot, and how many did. */
  readonly filled: { readonly slots: number; readonly running: number }
  /** What is to be added to an instant of the store to have it on the monotonic clock. */
  readonly clockMs: number
}

export interface DispatchVerdict {
  readonly complaints: readonly string[]
  readonly counts: Readonly<Record<'tasks' | 'runs' | 're-dispatches' | 'stale refused', number>>
}

type EventOf<Type extends NodeEvent['type']> = Extract<NodeEvent, { type: Type }>
type Begin = EventOf<'begin'>
type End = EventOf<'end'>

const second = 1_000
const margin = 10
/** From the death of a node to the next begin of what it ran. */
export const againMs: number = margin * (dispatchTimes.closedGraceMs + second)
/** The same when a server or Redis was hit at about that time. */
export const againDisturbedMs: number =
  margin * (dispatchTimes.closedGraceMs + dispatchTimes.leaseMs + dispatchTimes.serverLeaseMs + second)

export function checkDispatch(evidence: DispatchEvidence): DispatchVerdict {
  const { nodes, last } = evidence
  const begins = nodes.filter((event) => event.type === 'begin')
  const ends = nodes.filter((event) => event.type === 'end')
  const tasks = new Map(last.map((task) => [task.taskId, task]))
  const complaints = [
    ...checkSlots(nodes),
    ...checkRest(evidence),
    ...checkAttempts(begins),
    ...checkSubmits(evidence.submits, tasks, begins),
    ...last.flatMap((task) => checkEnd(task, ends)),
    ...checkSettled(nodes, ends, tasks),
    ...evidence.seen.flatMap((seen) => checkSeen(seen, tasks.get(seen.taskId))),
    ...checkAgain(evidence, begins, ends, tasks),
  ]
  const counts = {
    tasks: last.length,
    runs: begins.length,
    're-dispatches': begins.length - new Set(begins.map(({ taskId }) => taskId)).size,
    'stale refused': nodes.filter(({ type }) => type === 'stale').length,
  }
  return { complaints, counts }
}

function nameOf({ taskId, attempt }: { readonly taskId: string; readonly attempt: number }): string {
  return `${taskId}#${attempt}`
}

/** R1. Each instance by its own record, in its own order. */
function checkSlots(events: readonly NodeEvent[]): readonly string[] {
  const complaints: string[] = []
  for (const [instance, own] of Map.groupBy(events, (event) => event.instance)) {
    const slots = own.find((event) => event.type === 'up')?.slots ?? {}
    const running = new Map<string, Begin>()
    for (const event of own) {
      if (event.type === 'end') running.delete(nameOf(event))
      if (event.type === 'busy')
        complaints.push(`R1: ${instance} was given ${nameOf(event)} and had no slot for it`)
      if (event.type !== 'begin') continue
      running.set(nameOf(event), event)
      for (const service of Object.keys(event.uses)) {
        const used = [...running.values()].reduce((sum, { uses }) => sum + (uses[service] ?? 0), 0)
        const has = slots[service] ?? 0
        if (used > has)
          complaints.push(
            `R1: ${instance} ran ${used} of ${service} at once and has ${has}: ${[...running.keys()].join(', ')}`,
          )
      }
    }
  }
  return complaints
}

/** R2. */
function checkRest({ resting, filled }: DispatchEvidence): readonly string[] {
  const complaints = resting.flatMap(({ server, nodeId, status, used }) => {
    const taken = Object.entries(used).filter(([, count]) => count !== 0)
    return [
      ...taken.map(
        ([service, count]) => `R2: at rest ${server} says ${count} of ${service} taken on ${nodeId}`,
      ),
      ...(status === 'ready' ? [] : [`R2: at rest ${server} says that ${nodeId} is ${status}`]),
    ]
  })
  if (filled.running !== filled.slots)
    complaints.push(`R2: ${filled.running} tasks ran at once at last, and there are ${filled.slots} slots`)
  return complaints
}

/** R4. A node that holds an attempt is the only one that ever does. */
function checkAttempts(begins: readonly Begin[]): readonly string[] {
  return [...Map.groupBy(begins, nameOf)].flatMap(([name, of]) =>
    of.length > 1
      ? [`R4: ${name} was begun ${of.length} times: ${of.map(({ instance }) => instance).join(', ')}`]
      : [],
  )
}

/** R4. None is lost, none is there twice, and each ends as was wished. */
function checkSubmits(
  submits: readonly SubmitNote[],
  tasks: ReadonlyMap<string, SeenTask>,
  begins: readonly Begin[],
): readonly string[] {
  const tasksOf = Map.groupBy(begins, ({ number }) => number)
  return submits.flatMap((submit) => {
    const { number, taskId } = submit
    const ids = new Set(tasksOf.get(number)?.map((begin) => begin.taskId))
    if (taskId !== undefined) ids.add(taskId)
    if (ids.size > 1) return [`R4: submit ${number} made ${ids.size} tasks: ${[...ids].join(', ')}`]
    const [id] = ids
    if (id === undefined) return []
    const task = tasks.get(id)
    if (task === undefined) return [`R4: ${id} of submit ${number} is not in the store`]
    return isAsWished(submit, task)
      ? []
      : [`R4: ${id}, which was to be ${submit.wish}, is ${task.status} (${task.errorCode})`]
  })
}

function isAsWished({ wish, deadlineMs }: SubmitNote, task: SeenTask): boolean {
  const { status, errorCode, submittedAt, finishedAt } = task
  switch (wish) {
    case 'refused':
      return status === 'failed' && errorCode === refusedCode
    case 'cancelled':
      return status === 'completed' || status === 'cancelled'
    case 'dated': {
      const isLate = status === 'failed' && errorCode === 'deadline_exceeded'
      return status === 'completed' || (isLate && finishedAt! >= submittedAt + deadlineMs!)
    }
    default:
      return status === 'completed'
  }
}

/** R4. What the store has as the end is what a node said of that attempt. */
function checkEnd(task: SeenTask, ends: readonly End[]): readonly string[] {
  const { taskId, status, attempt, finishedAt } = task
  if (finishedAt === null) return [`R4: ${taskId} has not ended: it is ${status}`]
  const said = (how: End['how'], by?: TaskOutput) =>
    ends.some(
      (end) =>
        end.taskId === taskId &&
        end.how === how &&
        end.attempt === (by?.attempt ?? attempt) &&
        (by === undefined || end.instance === by.instance),
    )
  if (status === 'completed') {
    const output = task.output as TaskOutput
    if (output?.attempt !== attempt)
      return [`R4: ${nameOf(task)} completed with the output of attempt ${output?.attempt}`]
    return said('completed', output)
      ? []
      : [`R4: ${nameOf(task)} completed, and ${output.instance} never said so`]
  }
  if (status === 'failed' && task.errorCode === refusedCode && !said('refused'))
    return [`R4: ${nameOf(task)} failed as refused, and no node said so`]
  return []
}

/** R4. Of all ends of a task, one at most is confirmed to a node, and that is the store's. */
function checkSettled(
  events: readonly NodeEvent[],
  ends: readonly End[],
  tasks: ReadonlyMap<string, SeenTask>,
): readonly string[] {
  const endOf = new Map(ends.map((end) => [`${end.instance} ${nameOf(end)}`, end.how]))
  const settled = events
    .filter((event) => event.type === 'settled')
    // A failure that another attempt follows is confirmed as well; it is no end of the task.
    .filter((event) =>
      ['completed', 'refused'].includes(endOf.get(`${event.instance} ${nameOf(event)}`) ?? ''),
    )
  return [...Map.groupBy(settled, ({ taskId }) => taskId)].flatMap(([taskId, of]) => {
    const attempts = new Set(of.map((event) => `${event.instance} #${event.attempt}`))
    if (attempts.size > 1)
      return [`R4: ${attempts.size} ends of ${taskId} were taken: ${[...attempts].join(', ')}`]
    const task = tasks.get(taskId)
    return task?.attempt === of[0]!.attempt && task?.status !== 'cancelled'
      ? []
      : [
          `R4: the end of ${nameOf(of[0]!)} was taken, and the store has attempt ${task?.attempt}, ${task?.status}`,
        ]
  })
}

/** R4. What was shown as an end is the end. */
function checkSeen(seen: SeenTask, last: SeenTask | undefined): readonly string[] {
  if (last === undefined) return [`R4: ${seen.taskId} was shown and is not in the store`]
  if (seen.finishedAt === null)
    return seen.attempt > last.attempt
      ? [`R4: ${seen.taskId} was shown at attempt ${seen.attempt} and ended at ${last.attempt}`]
      : []
  const [before, after] = [seen, last].map(({ status, attempt, output, errorCode, finishedAt }) =>
    // A task that was to be cancelled when its server died is shown as cancelled from the end of the lease on; the server
    // that writes it later sets the instant.
    JSON.stringify({ status, attempt, output, errorCode, at: status === 'cancelled' ? null : finishedAt }),
  )
  return before === after ? [] : [`R4: ${seen.taskId} had ended as ${before}, and at last it is ${after}`]
}

/** RL1. */
function checkAgain(
  { blows, clockMs }: DispatchEvidence,
  begins: readonly Begin[],
  ends: readonly End[],
  tasks: ReadonlyMap<string, SeenTask>,
): readonly string[] {
  const returned = new Set(ends.map((end) => `${end.instance} ${nameOf(end)}`))
  const others = blows.filter(({ kind }) => kind !== 'node')
  return blows
    .filter(({ kind }) => kind === 'node')
    .flatMap(({ name, t }) => {
      // What went wrong before may still be mended, and what goes wrong within the bound is waited for.
      const since = t - dispatchTimes.leaseMs - dispatchTimes.serverLeaseMs
      const isDisturbed = others.some((other) => other.backAt > since && other.t < t + againMs)
      const bound = isDisturbed ? againDisturbedMs : againMs
      const died = begins.filter(
        (begin) => begin.instance === name && !returned.has(`${name} ${nameOf(begin)}`),
      )
      return died.flatMap((begin) => {
        const again = begins
          .filter((other) => other.taskId === begin.taskId && other.t > begin.t)
          .map((other) => other.t)
        const { finishedAt = null } = tasks.get(begin.taskId) ?? {}
        const next = Math.min(...again, finishedAt === null ? Number.POSITIVE_INFINITY : finishedAt + clockMs)
        const tookMs = Math.round(next - t)
        return tookMs > bound ? [`RL1: ${nameOf(begin)} of the dead ${name} went on after ${tookMs} ms`] : []
      })
    })
}
