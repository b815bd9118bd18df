/**
 * A server in a separate process, as `signalbox serve` runs it, or a bare `ws` server that sends and takes the same
 * frames. Tasks are submitted inside the process: a fixed number is in flight at a time, each followed by the next when its end is
 * in the store. What is counted is ends.
 */
import { open } from 'signalbox'
import { createServer, type ServedBox } from 'signalbox/server'
import { answer, orderOf } from './forked.ts'
import { type SocketsPace, worked } from './paced.ts'

export interface DispatchServerOrder {
  readonly database: string
  /** Tasks under way at a time. */
  readonly underWay: number
}

const { database, underWay } = orderOf<DispatchServerOrder>()
const box = await open(database, { thread: true })
const payload = { text: 'where is the station, please?', from: 'en', to: 'de' }
let endedCount = 0
let wanted = 0
let problem: unknown

const caps = { maxConnections: 20_000, maxConnectionsPerAddress: 20_000, maxStreamsPerPrincipal: 20_000 }
const server = createServer({ box: counted(box), port: 0, ...caps })
const { url } = await server.listen()

answer({
  port: () => Number(new URL(url).port),
  memory() {
    globalThis.gc?.()
    return process.memoryUsage.rss()
  },
  async run(pace: SocketsPace) {
    wanted = underWay
    submit(underWay)
    const done = await worked(pace, () => endedCount)
    wanted = 0
    if (problem !== undefined) throw problem
    return done
  },
})

/** The box with a store that tells how many tasks it has ended. */
function counted({ backend, settings, contention }: typeof box): ServedBox {
  const within = (namespace: string) => {
    const stores = backend.within(namespace)
    const { jobs } = stores
    const settle: typeof jobs.settle = async (verdicts) => {
      const took = await jobs.settle(verdicts)
      ended(took.filter(Boolean).length)
      return took
    }
    return overlaid(stores, { jobs: overlaid(jobs, { settle }) })
  }
  return { backend: overlaid(backend, { within }), settings, contention }
}

/** The same thing with other values for some of its properties; its private ones stay within reach. */
function overlaid<Whole extends object>(whole: Whole, parts: Partial<Whole>): Whole {
  return new Proxy(whole, {
    get(target, name) {
      if (Object.hasOwn(parts, name)) return parts[name as keyof Whole]
      const value = Reflect.get(target, name) as unknown
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

function ended(count: number): void {
  endedCount += count
  if (wanted > 0) submit(count)
}

function submit(count: number): void {
  for (let left = count; left > 0; left--) box.dispatch.submit({ service: 'asr', payload }).catch(failed)
}

function failed(error: unknown): void {
  problem ??= error
}
