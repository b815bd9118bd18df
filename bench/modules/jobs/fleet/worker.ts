/** One worker process of a fleet. It starts and stops its worker on request, and reports its jobs and its CPU time. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type LaneName, lanes } from '../lanes.ts'

export interface FleetOrder {
  readonly lane: LaneName
  readonly url: string
  /** How long a handler waits; 0: it returns at once. */
  readonly handlerMs: number
}

/** What a process did since its worker was started. */
export interface FleetReport {
  readonly handled: number
  readonly cpuMicros: number
}

const { lane: name, url, handlerMs } = JSON.parse(process.argv[2]!) as FleetOrder

process.on('disconnect', () => process.exit())
const lane = await (await lanes[name].load())(url)
let handled = 0
let began = process.cpuUsage()
let stop: () => Promise<void> = async () => undefined

const handle =
  handlerMs === 0
    ? () => {
        handled++
      }
    : async () => {
        await sleep(handlerMs)
        handled++
      }

process.on('message', async (message: 'start' | 'stop') => {
  if (message === 'start') {
    handled = 0
    began = process.cpuUsage()
    const worker = await lane.work(handle, raise)
    stop = () => worker.stop()
    process.send!('started')
    return
  }
  await stop()
  const { user, system } = process.cpuUsage(began)
  process.send!({ handled, cpuMicros: user + system } satisfies FleetReport)
})
process.send!('ready')

function raise(error: unknown): void {
  throw error
}
