import { createHash } from 'node:crypto'
import type { Duration } from '../../core/duration.ts'
import { encodeJson } from '../../core/json.ts'
import { duration, flag, onlyKeys, text, whole } from '../../core/options.ts'
import { checkTerms, checkUses } from '../matching/terms.ts'
import type { SubmitOptions } from './task.ts'
import type { TaskTerms } from './task-document.ts'

/** A submit, whole and checked. */
export interface ResolvedSubmit {
  readonly terms: TaskTerms
  /** JSON text. */
  readonly payload: string
  readonly idempotencyKey: string | null
  /** Of everything that was asked for: the same key must mean the same task. Empty without a key. */
  readonly fingerprint: string
}

const keys = [
  'service',
  'uses',
  'requires',
  'prefers',
  'payload',
  'priority',
  'tenant',
  'session',
  'deadlineMs',
  'idleMs',
  'retryable',
  'idempotencyKey',
]
/** A year. */
const maxSpanMs = 31_557_600_000

/** Checks a submit. Unknown fields are refused: a misspelt requirement must not become no requirement. */
export function resolveSubmit(options: SubmitOptions): ResolvedSubmit {
  onlyKeys('submit', options, keys)
  const service = text('submit.service', options.service)
  const { priority = 5, tenant = 'default', retryable = true } = options
  const terms: TaskTerms = {
    service,
    uses: checkUses('submit.uses', options.uses, service),
    requires: checkTerms('submit.requires', options.requires ?? []),
    prefers: checkTerms('submit.prefers', options.prefers ?? []),
    priority: whole('submit.priority', priority, { max: 9 }),
    tenant: text('submit.tenant', tenant),
    session: optionalText('submit.session', options.session),
    deadlineMs: span('submit.deadlineMs', options.deadlineMs),
    idleMs: span('submit.idleMs', options.idleMs),
    retryable: flag('submit.retryable', retryable),
  }
  const payload = encodeJson('submit.payload', options.payload)
  const idempotencyKey = optionalText('submit.idempotencyKey', options.idempotencyKey)
  const fingerprint =
    idempotencyKey === null
      ? ''
      : createHash('sha256').update(JSON.stringify(terms)).update(payload).digest('hex')
  return { terms, payload, idempotencyKey, fingerprint }
}

function span(name: string, value: Duration | null | undefined): number | null {
  return value === undefined || value === null ? null : duration(name, value, { min: 1, max: maxSpanMs })
}

function optionalText(name: string, value: string | null | undefined): string | null {
  return value === undefined || value === null ? null : text(name, value)
}
