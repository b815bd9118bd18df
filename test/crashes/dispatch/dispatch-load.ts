/**
 * Clients that submit and read tasks at both servers while the fleet is being killed, enough to keep the slots in use.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient, type WireTask } from '../../../src/http/client/index.ts'
import type { Random } from '../random.ts'
import type { RestingNode, SeenTask, Slots, SubmitNote, TaskPayload, TaskWish } from './dispatch-plan.ts'

export interface DispatchLoad extends Disposable {
  readonly submits: readonly SubmitNote[]
  readonly seen: readonly SeenTask[]
  /** Submits at one of the servers until it is answered. */
  surely(server: number, wishes: Partial<TaskPayload> & Pick<TaskPayload, 'wish'>): Promise<void>
  /** Submits unanswered tasks again with their old keys, until an answer comes: the task may exist or not. */
  again(): Promise<void>
  /** Continues until stopped; `hasRoom` returns whether another task may come. */
  begin(mayAdd: () => Promise<boolean>): void
  stop(): Promise<void>
  /** Each server's word about these nodes. */
  resting(nodeIds: readonly string[]): Promise<readonly RestingNode[]>
}

const wishes: readonly TaskWish[] = [
  'plain',
  'plain',
  'plain',
  'plain',
  'flaky',
  'refused',
  'cancelled',
  'dated',
]
const uses: readonly Slots[] = [{ asr: 1 }, { nmt: 1 }, { asr: 1, nmt: 1 }]
/** A key whose submit died half-way is in the dead one's hands for 30 s. */
const surelyMs = 90_000
const lanesEach = 3

export function createDispatchLoad(urls: readonly string[], random: Random): DispatchLoad {
  // Without retries: a retry would hide which calls were answered.
  const clients = urls.map((url) => createClient(url, { retries: 0, timeoutMs: 5_000 }))
  const submits: SubmitNote[] = []
  const seen: SeenTask[] = []
  const unanswered = new Map<number, TaskPayload>()
  const lanes: Promise<void>[] = []
  let [number, isOver] = [0, false]

  function drawTask(given: Partial<TaskPayload>): TaskPayload {
    const wish = given.wish ?? random.pick(wishes)
    return {
      number: number++,
      wish,
      uses: random.pick(uses),
      // Some run on while their node goes to the other server; and the word that one is cancelled needs a while.
      holdMs: wish === 'cancelled' || random() < 0.4 ? random.whole(800, 2_500) : random.whole(20, 400),
      deadlineMs: wish === 'dated' ? random.whole(200, 2_000) : null,
      failures: random.whole(1, 2),
      release: '',
      deafMs: random() < 0.5 ? random.whole(20, 400) : 0,
      ...given,
    }
  }

  /** Undefined: no answer. */
  async function send(server: number, payload: TaskPayload): Promise<string | undefined> {
    const { number, wish, uses, deadlineMs } = payload
    const [service] = Object.keys(uses)
    const task = { service: service!, uses, payload, deadlineMs, idempotencyKey: `submit-${number}` }
    const answer = await clients[server]!.dispatch.submit(task).catch(() => undefined)
    if (answer === undefined) unanswered.set(number, payload)
    else unanswered.delete(number)
    submits.push({ number, wish, deadlineMs, taskId: answer?.taskId })
    return answer?.taskId
  }

  async function surely(server: number, payload: TaskPayload): Promise<void> {
    const deadline = Date.now() + surelyMs
    for (; (await send(server, payload)) === undefined; await sleep(250))
      if (Date.now() > deadline) throw new Error(`server ${server} took no task in ${surelyMs} ms`)
  }

  async function submitOn(server: number, mayAdd: () => Promise<boolean>): Promise<void> {
    for (; !isOver; await sleep(random.whole(0, 100))) {
      if (!(await mayAdd())) continue
      const payload = drawTask({})
      const taskId = await send(server, payload)
      // A server that is down says so at once; asking it all the time shows nothing.
      if (taskId === undefined) await sleep(250)
      if (taskId !== undefined && payload.wish === 'cancelled') void cancel(taskId, 1 - server)
    }
  }

  /** At the other server than the one it was given to, if that is there. */
  async function cancel(taskId: string, server: number): Promise<void> {
    await sleep(random.whole(0, 400))
    const [first, second] = [clients[server]!, clients[1 - server]!]
    await first.dispatch.cancel(taskId).catch(() => second.dispatch.cancel(taskId).catch(() => undefined))
  }

  async function look(server: number): Promise<void> {
    for (; !isOver; await sleep(200)) {
      const page = await clients[server]!.dispatch.tasks({ limit: 100 }).catch(() => undefined)
      seen.push(...(page?.items.map(seenTask) ?? []))
    }
  }

  return {
    submits,
    seen,
    surely: (server, given) => surely(server, drawTask(given)),
    async again() {
      const payloads = [...unanswered.values()]
      await Promise.all(payloads.map((payload, index) => surely(index % urls.length, payload)))
    },
    begin(mayAdd) {
      for (const server of urls.keys()) {
        for (let lane = 0; lane < lanesEach; lane++) lanes.push(submitOn(server, mayAdd))
        lanes.push(look(server))
      }
    },
    async stop() {
      isOver = true
      await Promise.all(lanes)
    },
    async resting(nodeIds) {
      const said = clients.map(async (client, server) => {
        const shown = await client.dispatch.nodes({ limit: 100 }).catch(() => undefined)
        return nodeIds.map((nodeId): RestingNode => {
          const node = shown?.items.find((one) => one.nodeId === nodeId)
          const used = node?.services.map(({ name, used }) => [name, used] as const) ?? []
          const status = node?.status ?? 'missing'
          return { server: urls[server]!, nodeId, status, used: Object.fromEntries(used) }
        })
      })
      return (await Promise.all(said)).flat()
    },
    [Symbol.dispose]() {
      isOver = true
      for (const client of clients) client[Symbol.dispose]()
    },
  }
}

/** A task as it is kept for the judgement. */
export function seenTask({
  taskId,
  status,
  attempt,
  output,
  error,
  submittedAt,
  finishedAt,
}: WireTask): SeenTask {
  return { taskId, status, attempt, output, errorCode: error?.code ?? null, submittedAt, finishedAt }
}
