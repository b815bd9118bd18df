import { type Clock, systemClock, within } from '../../../core/clock.ts'
import { type ErrorCode, errorCodes, isSignalboxError } from '../../../core/errors.ts'
import { createLoop, type Loop } from '../../../core/loop.ts'
import { version } from '../../../core/version.ts'
import type { Health as Alive, Readiness } from '../../contract/index.ts'
import { type OnTrouble, tellTrouble } from '../background/namespace-work.ts'
import type { SchemaStatus, Served } from '../call.ts'

/**
 * Whether this server takes work: the store answers, its schema fits, every loop moves, and the server is not shutting
 * down. Probes ask often and from several places, so one ping of the store serves all of them.
 *
 *     ask ──▶ verdict of the last second? ──yes──▶ that
 *              └─no─▶ one ping under way, at most 2 s ──▶ verdict
 *
 * A ping that hangs is given up: the verdict is `timeout`, and 5 s after it began the next may try, since a connection
 * that died silently answers no more. Nothing else is kept, so a store that is back is found within seconds.
 *
 * Errors of a store may hold addresses and names. Only the code and its meaning are shown.
 */
export interface Health {
  /** The process is alive, whatever else is wrong. */
  live(): Alive
  /** Every check; `status` is `ready` when all are well, else `unready`. Never throws. */
  ready(): Promise<Readiness & { readonly status: 'ready' | 'unready' }>
  /** Whether the store answers. */
  storeUp(): Promise<boolean>
}

/** What health is judged by. */
export interface HealthParts {
  readonly store: Pick<Served, 'ping' | 'migrator'>
  /** The loops as they are now. */
  loops(): Iterable<Pick<Loop, 'name' | 'healthy'>>
  isDraining(): boolean
  /** Told whenever the answer of `ready` is another than before, for the log. */
  readonly onChange?: (readiness: Readiness) => void
  /** @default the process's own */
  readonly clock?: Clock
}

/** How patient health is. */
export const healthDefaults: {
  readonly pingTimeoutMs: number
  readonly keepMs: number
  readonly replaceMs: number
} = { pingTimeoutMs: 2_000, keepMs: 1_000, replaceMs: 5_000 }

type Check = Readiness['checks'][number]
/** What the store was found to be. */
interface Verdict {
  readonly store: Check
  readonly schema: Check
}

export function createHealth(parts: HealthParts): Health {
  const askStore = createStoreProbe(parts.store, parts.clock ?? systemClock)
  // That all is well is no news.
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

/** Asks the store one thing at a time, however many want to know. */
function createStoreProbe(store: HealthParts['store'], clock: Clock): () => Promise<Verdict> {
  const { pingTimeoutMs, keepMs, replaceMs } = healthDefaults
  let last: { readonly verdict: Verdict; readonly at: number } | undefined
  let underWay: { readonly since: number; readonly verdict: Promise<Verdict> } | undefined

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
    const mine = { since: clock.now(), verdict }
    underWay = mine
    const over = () => {
      if (underWay === mine) underWay = undefined
    }
    // By the store's own end, not by the deadline: until then another ping would only queue up behind it.
    void asked.then(over)
    return verdict
  }

  return async () => {
    const now = clock.now()
    if (last !== undefined && now - last.at <= keepMs) return last.verdict
    if (underWay !== undefined && now - underWay.since < replaceMs) return underWay.verdict
    return begin()
  }
}

const unknownSchema: Check = { name: 'schema', ok: false, detail: 'The store does not answer.' }

/** Never rejects. */
async function askStore(from: HealthParts['store']): Promise<Verdict> {
  try {
    await from.ping()
  } catch (error) {
    return { store: { name: 'store', ok: false, detail: inWords(error) }, schema: unknownSchema }
  }
  const store: Check = { name: 'store', ok: true }
  try {
    return { store, schema: schemaCheck(await from.migrator.status()) }
  } catch (error) {
    return { store, schema: { ...unknownSchema, detail: inWords(error) } }
  }
}

function schemaCheck({ current, latest, isRunnable, isBeforeBaseline }: SchemaStatus): Check {
  if (isRunnable) return { name: 'schema', ok: true }
  const isOlder = isBeforeBaseline || current < latest
  const code: ErrorCode = current === 0 ? 'schema_missing' : isOlder ? 'schema_outdated' : 'schema_newer'
  const detail = `${code}: ${errorCodes[code].meaning} It has schema ${current}, this version works with ${latest}.`
  return { name: 'schema', ok: false, detail }
}

function inWords(error: unknown): string {
  const code = isSignalboxError(error) && Object.hasOwn(errorCodes, error.code) ? error.code : 'internal'
  return `${code}: ${errorCodes[code].meaning}`
}

/**
 * Leases, due times and windows use the store's clock. If that clock is set while the store works, leases end early or
 * late. Tokens keep this safe, but an operator should know. Each check compares the store's clock with this process's
 * monotonic clock.
 */
export interface ClockWatch {
  readonly loop: Loop
  /** The last jump, for an hour. */
  jump(): ClockJump | undefined
}

export interface ClockJump {
  /** By this machine's clock. */
  readonly at: number
  /** Forward when above zero. */
  readonly byMs: number
}

export interface ClockWatchParts {
  /** The store's time. */
  now(): Promise<number>
  readonly onJump: (jump: ClockJump) => void
  readonly onTrouble?: OnTrouble | undefined
  /** @default 10_000 */
  readonly lookMs?: number | undefined
}

/** Less is what a slow answer or a clock that is being slewed comes to. */
const leastMs = 2_000
const keepMs = 3_600_000

export function createClockWatch({ now, onJump, onTrouble, lookMs = 10_000 }: ClockWatchParts): ClockWatch {
  let last: { readonly store: number; readonly own: number; readonly sureToMs: number } | undefined
  let found: { readonly jump: ClockJump; readonly own: number } | undefined

  const loop = createLoop({
    name: 'server.clock',
    idleMs: lookMs,
    async step(): Promise<'idle'> {
      const askedAt = performance.now()
      const store = await now()
      const answeredAt = performance.now()
      // The store read its clock somewhere between the two.
      const look = { store, own: (askedAt + answeredAt) / 2, sureToMs: (answeredAt - askedAt) / 2 }
      if (last !== undefined) {
        const byMs = Math.round(look.store - last.store - (look.own - last.own))
        if (Math.abs(byMs) > leastMs + look.sureToMs + last.sureToMs) {
          found = { jump: { at: Date.now(), byMs }, own: look.own }
          onJump(found.jump)
        }
      }
      last = look
      return 'idle'
    },
  })
  return {
    loop: tellTrouble(loop, onTrouble),
    jump: () => (found !== undefined && performance.now() - found.own < keepMs ? found.jump : undefined),
  }
}
