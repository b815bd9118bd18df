/**
 * A node that writes down what it runs, until it is killed. What it runs is counted here, from when a handler is called
 * to when it returns, whatever servers believe. Started by dispatch-killing.ts with its options as JSON.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectNode, type NodeTask } from '../../../src/http/client/index.ts'
import { keepCompiled } from '../../support/compiled.ts'
import { createEventLog, monotonicMs } from '../event-log.ts'
import {
  type DispatchNodeOptions,
  type NodeEvent,
  type RunEnd,
  refusedCode,
  type TaskOutput,
  type TaskPayload,
} from './dispatch-plan.ts'

const { urls, folder, nodeId, instance, slots }: DispatchNodeOptions = JSON.parse(process.argv[2]!)
const log = createEventLog<NodeEvent>(folder, instance)
let isLeaving = false

log.write({ type: 'up', instance, nodeId, slots, t: monotonicMs() })
keepCompiled()
console.log('ready')
const node = await connectNode(
  urls.map((url) => `${url.replace(/^http/, 'ws')}/v1/nodes/connect`),
  {
    nodeId,
    instanceId: instance,
    services: Object.entries(slots).map(([name, count]) => ({ name, slots: count })),
    backoff: { baseMs: 50, factor: 1.5, jitter: 0.5, maxMs: 500 },
    connectMs: '2m',
    onTask: (task, { signal }) => run(task, signal),
  },
)
node.events.on('task', ({ taskId, attempt, status }) => {
  if (status === 'stale' || status === 'settled') write(status, { taskId, attempt })
  else if (status === 'rejected' && !isLeaving) write('busy', { taskId, attempt })
})
process.once('SIGTERM', async () => {
  isLeaving = true
  await node.close()
  process.exit(0)
})
// Nothing that servers go through may end a node.
const error = await node.closed
if (!isLeaving) throw error

function write(type: 'busy' | 'stale' | 'settled', of: Pick<NodeTask, 'taskId' | 'attempt'>): void {
  log.write({ type, instance, ...of, t: monotonicMs() })
}

async function run({ taskId, attempt, payload }: NodeTask, signal: AbortSignal): Promise<TaskOutput> {
  const wanted = payload as TaskPayload
  const of = { instance, taskId, attempt }
  const { number, uses } = wanted
  log.write({ type: 'begin', ...of, number, uses, t: monotonicMs() })
  const how = await work(wanted, attempt, signal)
  log.write({ type: 'end', ...of, how, t: monotonicMs() })
  if (how === 'completed') return { instance, attempt }
  throw Object.assign(new Error(how), {
    code: how === 'refused' ? refusedCode : 'not_yet',
    retryable: how !== 'refused',
  })
}

async function work(
  { wish, holdMs, failures, release, deafMs }: TaskPayload,
  attempt: number,
  signal: AbortSignal,
): Promise<RunEnd> {
  const until = monotonicMs() + holdMs
  const isDone = () => (wish === 'holding' ? existsSync(join(folder, release)) : monotonicMs() >= until)
  while (!isDone()) {
    await sleep(10)
    if (!signal.aborted) continue
    // Its slots are in use for as long as it has not returned.
    await sleep(deafMs)
    return 'aborted'
  }
  if (wish === 'flaky' && attempt <= failures) return 'failed'
  return wish === 'refused' ? 'refused' : 'completed'
}
