/** How long a server is asked to work before it is timed, and then. */
export interface SocketsPace {
  readonly warmMs: number
  readonly timedMs: number
}

/** What a server did: tasks a second, and what one cost its process. */
export interface Worked {
  readonly rate: number
  /** Of processor time, in all threads of the server's process. */
  readonly microseconds: number
}

/** Counts over the timed part of what goes on by itself meanwhile. */
export async function worked({ warmMs, timedMs }: SocketsPace, count: () => number): Promise<Worked> {
  await sleep(warmMs)
  const [before, begun, spent] = [count(), performance.now(), process.cpuUsage()]
  await sleep(timedMs)
  const done = count() - before
  const { user, system } = process.cpuUsage(spent)
  return { rate: (done / (performance.now() - begun)) * 1_000, microseconds: (user + system) / done }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
