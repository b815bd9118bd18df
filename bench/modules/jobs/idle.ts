/** Statements a second that a worker with nothing to do sends to its database. Counted once it has settled in. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { open } from 'signalbox'
import type { Case, Conditions, Contestant, Figures, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf, groundUrl } from './ground.ts'
import { createPlace } from './place.ts'
import { openWiretap } from './wiretap.ts'

/** Starts an idle worker on `url` and reads `counter` at both ends of a while. */
async function idle(url: string, { quick }: Conditions, counter: () => Promise<number>): Promise<Figures> {
  await using box = await open(url, { migrate: true })
  const worker = box.jobs.worker({ handlers: { noop: () => undefined } })
  await worker.start()
  await sleep(1_000)
  const before = await counter()
  const startedAt = performance.now()
  await sleep(quick ? 15_000 : 30_000)
  const statements = (await counter()) - before
  const seconds = (performance.now() - startedAt) / 1_000
  await worker.stop()
  return { statements: statements / seconds }
}

const onPostgres: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'postgres')
  await using tap = await openWiretap(place.url)
  // Awaited here: the tap is to be there until the count is taken.
  return await idle(tap.url, conditions, async () => tap.count)
}

const onMariadb: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'mariadb')
  const connection = await createConnection(groundUrl(conditions, 'mariadb'))
  let asked = 0
  try {
    return await idle(place.url, conditions, async () => {
      const [rows] = await connection.query<RowDataPacket[]>(`SHOW GLOBAL STATUS LIKE 'Questions'`)
      // Less the questions about questions.
      return Number(rows[0]!.Value) - ++asked
    })
  } finally {
    await connection.end()
  }
}

const idleCase = {
  unit: 'statements/s',
  better: 'lower',
  figure: 'statements',
  peers: [],
  goal: atMost(2),
} as const satisfies Partial<Case>

export const idleTrials: readonly Trial[] = [
  {
    name: 'idle-statements',
    open: groundOf('postgres'),
    contestants: { signalbox: onPostgres },
    cases: [{ ...idleCase, name: 'idle-statements' }],
  },
  {
    name: 'idle-statements-mariadb',
    open: groundOf('mariadb'),
    contestants: { signalbox: onMariadb },
    cases: [{ ...idleCase, name: 'idle-statements-mariadb' }],
  },
]
