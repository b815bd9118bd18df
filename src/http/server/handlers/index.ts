import type { Tokens } from '../../../access/index.ts'
import type { Contention } from '../../../contention/index.ts'
import type { Handler } from '../call.ts'
import type { Overviews } from '../metrics/overview.ts'
import type { Redactor } from '../request/redact-job.ts'
import { dispatchHandlers } from './dispatch.ts'
import { eventHandlers } from './events.ts'
import { bulkHandlers, type JobMeterPart, jobHandlers, logHandlers } from './jobs.ts'
import { lockHandlers } from './locks.ts'
import { monitorHandlers } from './monitor.ts'
import { onceHandlers } from './once.ts'
import { scheduleHandlers } from './schedules.ts'
import {
  auditHandlers,
  contentionHandlers,
  overviewHandlers,
  rootHandler,
  type SystemParts,
  systemHandlers,
} from './system.ts'
import { tokenHandlers } from './tokens.ts'

/** What handlers are made of. */
export interface HandlerParts {
  readonly tokens: Tokens
  readonly meter: JobMeterPart
  readonly system: SystemParts
  readonly overviews: Overviews
  /** Learns where a bulk operation was begun. */
  readonly bulkBegun: (namespace: string) => void
  readonly redactor: Redactor
  readonly contention: Pick<Contention, 'snapshot'>
}

/** Every handler, by the id of its route. Each knows the types of its own route; from here on they are all alike. */
export function createHandlers({
  tokens,
  meter,
  system,
  overviews,
  bulkBegun,
  redactor,
  contention,
}: HandlerParts): Readonly<Record<string, Handler>> {
  const all = {
    ...jobHandlers(meter),
    ...bulkHandlers(bulkBegun),
    ...logHandlers,
    ...scheduleHandlers(redactor),
    ...lockHandlers,
    ...onceHandlers,
    ...monitorHandlers,
    ...dispatchHandlers,
    ...tokenHandlers(tokens),
    ...auditHandlers,
    ...eventHandlers,
    ...contentionHandlers(contention),
    ...systemHandlers(system),
    ...overviewHandlers(overviews),
    root: rootHandler,
  }
  return all as unknown as Readonly<Record<string, Handler>>
}
