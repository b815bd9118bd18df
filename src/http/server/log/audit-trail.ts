import type { AuditAct, AuditTarget } from '../../../audit/index.ts'
import { SignalboxError } from '../../../core/errors.ts'
import type { Answer, Call } from '../call.ts'
import { asSignalboxError } from '../request/problem.ts'
import type { OperatorAct } from './operator-acts.ts'
import { redact } from './redact.ts'

/**
 * Records what operators do, in one place for all routes: after the handler, when it is known what came of it, and before
 * the answer goes out. The audit never stands in the way of the act: an entry that cannot be written, or not in time, is
 * told to whoever watches, and the request is answered as ever.
 */
export interface AuditTrail {
  /** Does what `handle` does, and records what came of it. */
  follow(act: OperatorAct, call: Call, handle: () => Promise<Answer>): Promise<Answer>
}

export interface AuditTrailParts {
  /** Learns of an entry that was not written. Must not throw. */
  readonly onFailed: (action: string, error: unknown) => void
  /** How long an answer waits for its entry. @default 2_000 */
  readonly deadlineMs?: number
}

export function createAuditTrail({ onFailed, deadlineMs = 2_000 }: AuditTrailParts): AuditTrail {
  async function record(act: OperatorAct, call: Call, came: Came): Promise<void> {
    try {
      const entry = entryOf(act, call, came)
      await inTime(() => call.space.audit.record(entry), deadlineMs)
    } catch (error) {
      onFailed(act.action, error)
    }
  }

  return {
    async follow(act, call, handle) {
      let answer: Answer
      try {
        answer = await handle()
      } catch (thrown) {
        const { code, status } = asSignalboxError(thrown)
        await record(act, call, { outcome: status < 500 ? 'refused' : 'unknown', code, reply: undefined })
        throw thrown
      }
      await record(act, call, {
        outcome: 'done',
        code: null,
        reply: 'body' in answer ? answer.body : undefined,
      })
      return answer
    },
  }
}

/** What came of an act. */
interface Came extends Required<Pick<AuditAct, 'outcome' | 'code'>> {
  readonly reply: unknown
}

function entryOf(act: OperatorAct, call: Call, { reply, ...outcome }: Came): AuditAct {
  const { params, body, principal } = call
  const { id, name } = principal
  return {
    actor: { id, name: name === undefined ? null : redact(name) },
    action: act.action,
    target: tidy(act.target({ params, body, reply })),
    ...outcome,
  }
}

/** A secret that somebody gave in place of a name or an id is not kept. */
function tidy(target: ReturnType<OperatorAct['target']>): AuditTarget {
  const kept: Record<string, string | number> = {}
  for (const [key, value] of Object.entries(target)) {
    if (value === undefined || value === null) continue
    kept[key] = typeof value === 'string' ? redact(value) : value
  }
  return kept
}

/** What is written later than that is written all the same, but nobody waits for it. */
async function inTime(write: () => Promise<void>, deadlineMs: number): Promise<void> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    const message = `The store took more than ${deadlineMs} ms to write an entry of the audit.`
    late.reject(new SignalboxError('store_unavailable', message))
  }, deadlineMs)
  try {
    await Promise.race([write(), late.promise])
  } finally {
    clearTimeout(timer)
  }
}
