import { type Clock, systemClock, within } from '../../../core/clock.ts'
import { type ErrorCode, errorCodes, isSignalboxError } from '../../../core/errors.ts'
import { createLoop, type Loop } from '../../../core/loop.ts'
import { version } from '../../../core/version.ts'
import type { Health as Alive, Readiness } from '../../contract/index.ts'
import { type OnLoopEvent, reportLoopEvents } from '../background/namespace-work.ts'
import type { SchemaStatus, Served } from '../call.ts'

/**
 * Whether this server accepts work: the store answers, its schema fits, every loop runs, and the server is not shutting
 * down. Several probes ask often, so they share one ping of the store.
 *
 *     probe ──▶ verdict of the last second? ──yes──▶ that verdict
 *                └─no─▶ one shared ping, at most 2 s ──▶ new verdict
 *
 * If a ping hangs, the verdict is `timeout`. The next ping may start 5 s after the hanging one, because a connection
 * that died silently never answers. No other state is kept, so the server detects a recovered store within seconds.
 *
 * Errors of a store may contain addresses and names. The answer shows only the code and its meaning.
 */
export interface Health {
  /** The process is alive, even if all other checks fail. */
  live(): Alive
  /** Runs every check. `status` is `ready` if all succeed, else `unready`. Never throws. */
  ready(): Promise<Readiness & { readonly status: 'ready' | 'unready' }>
  /** Whether the store answers. */
  storeUp(): Promise<boolean>
}

/** The inputs of the checks. */
export interface HealthParts {
  readonly store: Pick<Served, 'ping' | 'migrator'>
  /** The present loops. */
  loops(): Iterable<Pick<Loop, 'name' | 'healthy'>>
  isDraining(): boolean
  /** Called when the status changes, for the log. */
  readonly onChange?: (readiness: Readiness) => void
  /** @default the process's own */
  readonly clock?: Clock
}

const pingTimeoutMs = 2_000
/** How long callers share a verdict. */
const verdictMs = 1_000
/** How long after a hanging ping the next one may start. */
const replaceMs = 5_000

type Check = Readiness['checks'][number]
/** The result of a check of the store. */
interface Verdict {
  readonly store: Check
  readonly schema: Check
}

export function createHealth(parts: HealthParts): Health {
  const askStore = createStoreProbe(parts.store, parts.clock ?? systemClock)
  // A server that starts as ready logs nothing.
  let lastStatus: 'ready' | 'unready' = 'ready'

  return {
    live: () => ({ status: 'ok', version }),

    async ready() {
      const { store, schema } = await askStore()
      const checks = [store, schema, ...loopChecks(parts.loops()), drainCheck(parts.isDraining())]
      const status = checks.every(({ ok }) => ok) ? 'ready' : 'unready'
      const readiness = { status, version, checks } as const
      const changed = status !== lastStatus
      lastStatus = status
      if (changed) parts.onChange?.(readiness)
      return readiness
    },

    storeUp: async () => (await askStore()).store.ok,
  }
}

function loopChecks(loops: Iterable<Pick<Loop, 'name' | 'healthy'>>): readonly Check[] {
  return Array.from(loops, ({ name, healthy }) =>
    healthy
      ? { name: `loop:${name}`, ok: true }
      : {
          name: `loop:${name}`,
          ok: false,
          detail: 'The loop has stopped, is stuck, or fails at every step.',
        },
  )
}

function drainCheck(isDraining: boolean): Check {
  return isDraining
    ? { name: 'accepting', ok: false, detail: `draining: ${errorCodes.draining.meaning}` }
    : { name: 'accepting', ok: true }
}

/** Runs one check of the store at a time, which all callers share. */
function createStoreProbe(store: HealthParts['store'], clock: Clock): () => Promise<Verdict> {
  let last: { readonly verdict: Verdict; readonly at: number } | undefined
  let inFlight: { readonly since: number; readonly verdict: Promise<Verdict> } | undefined

  function begin(): Promise<Verdict> {
    const asked = askStore(store)
    const late = (): Verdict => ({
      store: { name: 'store', ok: false, detail: `timeout: There was no answer within ${pingTimeoutMs} ms.` },
      schema: unknownSchema,
    })
    const verdict = within(pingTimeoutMs, asked, late, clock).then((found) => {
      last = { verdict: found, at: clock.now() }
      return found
    })
    const own = { since: clock.now(), verdict }
    inFlight = own
    const over = () => {
      if (inFlight === own) inFlight = undefined
    }
    // Waits for the store, not for the deadline: until then, another ping would only wait behind this one.
    void asked.then(over)
    return verdict
  }

  return async () => {
    const now = clock.now()
    if (last !== undefined && now - last.at <= verdictMs) return last.verdict
    if (inFlight !== undefined && now - inFlight.since < replaceMs) return inFlight.verdict
    return begin()
  }
}

const unknownSchema: Check = { name: 'schema', ok: false, detail: 'The store does not answer.' }

/** Never rejects. */
async function askStore(from: HealthParts['store']): Promise<Verdict> {
  try {
    await from.ping()
  } catch (error) {
    return { store: { name: 'store', ok: false, detail: describeError(error) }, schema: unknownSchema }
  }
  const store: Check = { name: 'store', ok: true }
  try {
    return { store, schema: schemaCheck(await from.migrator.status()) }
  } catch (error) {
    return { store, schema: { ...unknownSchema, detail: describeError(error) } }
  }
}

function schemaCheck({ current, latest, isRunnable, isBeforeBaseline }: SchemaStatus): Check {
  if (isRunnable) return { name: 'schema', ok: true }
  const isOlder = isBeforeBaseline || current < latest
  const code: ErrorCode = current === 0 ? 'schema_missing' : isOlder ? 'schema_outdated' : 'schema_newer'
  const detail = `${code}: ${errorCodes[code].meaning} It has schema ${current}, this version works with ${latest}.`
  return { name: 'schema', ok: false, detail }
}

function describeError(error: unknown): string {
  const code = isSignalboxError(error) && Object.hasOwn(errorCodes, error.code) ? error.code : 'internal'
  return `${code}: ${errorCodes[code].meaning}`
}

/**
 * Detects changes of the store's clock. Leases, due times and windows use it. If it is set while the store works,
 * leases end early or late. Tokens keep this safe, but an operator should know. Each check compares the store's clock
 * with this process's monotonic clock.
 */
interface ClockWatch {
  readonly loop: Loop
  /** The last jump, if it is less than an hour old. */
  jump(): ClockJump | undefined
}

export interface ClockJump {
  /** The time of the detection by this machine's clock. */
  readonly at: number
  /** The size of the jump; forward if positive. */
  readonly byMs: number
}

interface ClockWatchParts {
  /** The store's time. */
  now(): Promise<number>
  readonly onJump: (jump: ClockJump) => void
  readonly onLoopEvent?: OnLoopEvent | undefined
  /** @default 10_000 */
  readonly pollMs?: number | undefined
}

/** A slow answer or a slewed clock can cause smaller differences. */
const minJumpMs = 2_000
const keepMs = 3_600_000

export function createClockWatch({ now, onJump, onLoopEvent, pollMs = 10_000 }: ClockWatchParts): ClockWatch {
  let last: { readonly store: number; readonly own: number; readonly errorMs: number } | undefined
  let found: { readonly jump: ClockJump; readonly own: number } | undefined

  const loop = createLoop({
    name: 'server.clock',
    idleMs: pollMs,
    async step(): Promise<'idle'> {
      const askedAt = performance.now()
      const store = await now()
      const answeredAt = performance.now()
      // The store read its clock at some moment between the two.
      const reading = { store, own: (askedAt + answeredAt) / 2, errorMs: (answeredAt - askedAt) / 2 }
      if (last !== undefined) {
        const byMs = Math.round(reading.store - last.store - (reading.own - last.own))
        if (Math.abs(byMs) > minJumpMs + reading.errorMs + last.errorMs) {
          found = { jump: { at: Date.now(), byMs }, own: reading.own }
          onJump(found.jump)
        }
      }
      last = reading
      return 'idle'
    },
  })
  reportLoopEvents(loop, onLoopEvent)
  return {
    loop,
    jump: () => (found !== undefined && performance.now() - found.own < keepMs ? found.jump : undefined),
  }
}
