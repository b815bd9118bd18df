import type { Tokens } from '../../../access/index.ts'
import type { Contention } from '../../../contention/index.ts'
import type { Handler } from '../call.ts'
import type { Overviews } from '../metrics/overview.ts'
import type { Redactor } from '../request/redact-job.ts'
import { dispatchHandlers } from './dispatch.ts'
import { bulkHandlers, jobHandlers, logHandlers, type MeasureWait, scheduleHandlers } from './jobs.ts'
import { lockHandlers, onceHandlers } from './locks.ts'
import { alertHandlers, monitorHandlers } from './monitor.ts'
import {
  auditHandlers,
  contentionHandlers,
  eventHandlers,
  overviewHandlers,
  rootHandler,
  type SystemParts,
  seriesHandlers,
  systemHandlers,
  tokenHandlers,
} from './system.ts'
import { workerHandlers } from './workers.ts'

/** The services that handlers use. */
interface HandlerParts {
  readonly tokens: Tokens
  readonly measureWait: MeasureWait
  readonly system: SystemParts
  readonly overviews: Overviews
  /** Called with the namespace in which a bulk operation began. */
  readonly bulkBegun: (namespace: string) => void
  readonly redactor: Redactor
  readonly contention: Pick<Contention, 'snapshot'>
}

/** Creates all handlers, by route id. Each handler has the types of its route; the result drops these types. */
export function createHandlers(parts: HandlerParts): Readonly<Record<string, Handler>> {
  const all = {
    ...jobHandlers(parts.measureWait),
    ...bulkHandlers(parts.bulkBegun),
    ...logHandlers,
    ...scheduleHandlers(parts.redactor),
    ...workerHandlers,
    ...lockHandlers,
    ...onceHandlers,
    ...monitorHandlers,
    ...alertHandlers,
    ...dispatchHandlers,
    ...tokenHandlers(parts.tokens),
    ...auditHandlers,
    ...eventHandlers,
    ...seriesHandlers,
    ...contentionHandlers(parts.contention),
    ...systemHandlers(parts.system),
    ...overviewHandlers(parts.overviews),
    root: rootHandler,
  }
  return all as unknown as Readonly<Record<string, Handler>>
}
