/** A process that claims keys, does a little under each, and writes down what it was answered, until it is killed. */
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { isSignalboxError, open } from '../../../src/index.ts'
import type { ClaimAnswer, GuardedRun } from '../../../src/once/index.ts'
import { keepCompiled } from '../../support/compiled.ts'
import { createEventLog, monotonicMs } from '../event-log.ts'
import { createRandom } from '../random.ts'
import { type ClaimerOptions, type GuardEvent, keyEndings, keyTerms, termsOf } from './guard-plan.ts'

const { url, redis, namespace, folder, name, seed, startedAt }: ClaimerOptions = JSON.parse(process.argv[2]!)
// A store that is down would answer by its policy, which is another promise.
const box = await open(url as 'sqlite:', { namespace, redis, once: { whenDown: 'closed' } })
const random = createRandom(seed)
const log = createEventLog<GuardEvent>(folder, name)
const lanes = 4
let isOver = false
process.once('SIGTERM', () => {
  isOver = true
})

class Failure extends Error {}

keepCompiled()
console.log('ready')
await Promise.all(Array.from({ length: lanes }, claimOn))
await box.close()
process.exit(0)

async function claimOn(): Promise<void> {
  while (!isOver) {
    const key = drawKey()
    try {
      if (random() < 0.6) await runKept(key)
      else await claimBare(key)
    } catch (error) {
      if (error instanceof Failure || isSignalboxError(error, 'lease_lost')) continue
      log.write({ type: 'error', key, error: String(error), t: monotonicMs() })
    }
  }
}

/** One of a few keys, so that claimers meet; soon other keys, because done keys stay done. */
function drawKey(): string {
  const generation = Math.floor((monotonicMs() - startedAt) / 1_500)
  const ending = keyEndings[(generation + random.whole(0, 2)) % keyEndings.length]
  return `${random.pick(Object.keys(keyTerms))}-${generation}-key${ending}`
}

/** Keeps its claim while it works. */
async function runKept(key: string): Promise<void> {
  const askedAt = monotonicMs()
  let token = ''
  const work = async (run: GuardedRun): Promise<string> => {
    token = run.token
    log.write({ type: 'claimed', key, token, askedAt, kept: true, t: monotonicMs() })
    const until = monotonicMs() + random.whole(0, 400)
    while (!run.signal.aborted && monotonicMs() < until) {
      await sleep(10)
      const t = monotonicMs()
      // After two turns every timer has run that was due by then, the one that counts the claim as lost among them.
      await turn()
      await turn()
      if (!run.signal.aborted) log.write({ type: 'alive', key, token, t })
    }
    const end = random() < 0.5 ? 'failed' : 'done'
    log.write({ type: 'ending', key, token, end, t: monotonicMs() })
    if (end === 'failed') throw new Failure()
    return token
  }
  const { mode, leaseMs, keepMs } = termsOf(key)
  try {
    const answer = await box.once.run(key, work, { mode, leaseMs, keepMs })
    if (answer.ran) log.write({ type: 'ended', key, token, end: 'done', took: true, t: monotonicMs() })
    else await answered(key, askedAt, answer)
  } catch (error) {
    if (isSignalboxError(error, 'lease_lost'))
      log.write({ type: 'ended', key, token, end: 'done', took: false, t: monotonicMs() })
    throw error
  }
}

/** Does not renew, and now and then ends too late. */
async function claimBare(key: string): Promise<void> {
  const { mode, leaseMs, keepMs } = termsOf(key)
  const askedAt = monotonicMs()
  const answer = await box.once.claim(key, { mode, leaseMs, keepMs })
  if (answer.status !== 'run') return await answered(key, askedAt, answer)
  const { token } = answer
  log.write({ type: 'claimed', key, token, askedAt, kept: false, t: monotonicMs() })
  await sleep(random.whole(0, leaseMs * (random() < 0.4 ? 2 : 0.5)))
  const end = random() < 0.5 ? 'failed' : 'done'
  log.write({ type: 'ending', key, token, end, t: monotonicMs() })
  const settle = end === 'done' ? box.once.done(key, token, token) : box.once.fail(key, token)
  const took = await settle.then(
    () => true,
    (error) => {
      if (isSignalboxError(error, 'lease_lost')) return false
      throw error
    },
  )
  log.write({ type: 'ended', key, token, end, took, t: monotonicMs() })
}

async function answered(
  key: string,
  askedAt: number,
  answer: {
    readonly status: Exclude<ClaimAnswer['status'], 'run'>
    readonly result?: unknown
    readonly degraded?: true
  },
): Promise<void> {
  const { status, result, degraded } = answer
  const t = monotonicMs()
  if (degraded) log.write({ type: 'error', key, error: 'degraded', t })
  else log.write({ type: 'answered', key, askedAt, t, status, result: result as string | undefined })
  await sleep(random.whole(0, 10))
}
