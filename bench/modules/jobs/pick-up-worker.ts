/** The worker's side of a pick-up between processes: tells the producer when each handler was entered. */
import { type LaneName, lanes } from './lanes.ts'

export interface PickedUp {
  readonly number: number
  /** Nanoseconds of the machine's monotonic clock, as text: they outgrow the safe integers. */
  readonly at: string
}

const { lane: name, url } = JSON.parse(process.argv[2]!) as { lane: LaneName; url: string }

// When the producer is gone, so is the reason to be here.
process.on('disconnect', () => process.exit())
const open = await lanes[name].load()
const lane = await open(url)
await lane.work(
  (number) => {
    const at = process.hrtime.bigint()
    process.send!({ number, at: `${at}` } satisfies PickedUp)
  },
  (error) => {
    throw error
  },
)
process.on('message', () => {
  globalThis.gc!()
  process.send!('ready')
})
process.send!('ready')
